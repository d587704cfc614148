"""How often a run has reached what depends on limits: counted where the brokers' code does it."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, NamedTuple
from unittest.mock import patch

from kohort.broker.coordination.share_state_shards import ShareStateShards
from kohort.broker.explain.history import GroupRebalances
from kohort.broker.group.offsets import removal
from kohort.broker.handlers.data.fetch_sessions import FetchSessions
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.transport.file_range import FileRange
from kohort.storage import recovery
from kohort.storage.journal import Journal
from kohort.storage.partition_log import PartitionLog
from kohort.storage.recovery import LogLoader
from kohort.storage.segment import Segment
from kohort.storage.writable_log import WritableLog


class Step(NamedTuple):
    """A function of the broker, and when a call of it counts, by its arguments and its result."""

    words: str
    owner: Any
    name: str
    counts: Callable[[tuple[Any, ...], Any], object] = lambda _arguments, _result: True


def _result(_arguments: tuple[Any, ...], result: Any) -> object:
    return result


STEPS = (
    Step("a recovery point is noted", WritableLog, "_mark_point"),
    Step(
        "a start goes on behind a recovery point",
        LogLoader,
        "_recover",
        lambda given, _: given[5] is not None,
    ),
    Step("a segment is begun", WritableLog, "_roll"),
    Step("the files of a segment are closed for others", Segment, "let_go"),
    Step("an unfinished swap of segments is found", recovery, "finish_swaps", _result),
    Step("the journal begins again", Journal, "restart"),
    Step("the journal is emptied", Journal, "wipe"),
    Step("the journal brings batches back", Journal, "restore", _result),
    Step(
        "batches are kept beside the journal", Journal, "_save_orphaned", lambda given, _: given[0].orphaned
    ),
    Step("a log is cut", PartitionLog, "_cut"),
    Step(
        "records are deleted before an offset",
        PartitionLog,
        "delete_records_before",
        lambda given, _: given[0].log_start_offset == given[1],
    ),
    Step("a segment is compacted", PartitionLog, "replace_segments", _result),
    Step("old segments are deleted", PartitionLog, "delete_old_segments", _result),
    Step("files of old segments are removed", PartitionLog, "remove_deleted_files", _result),
    Step("idle producers are forgotten", PartitionLog, "expire_producers", _result),
    Step("a thread writes a flush", Flusher, "_hand_over"),
    Step("a part of an answer is sent from its file", FileRange, "is_warm", _result),
    Step("a fetch session finds no room", FetchSessions, "create", lambda _, result: result is None),
    Step("an offset expires", removal, "_is_expired", _result),
    Step("the state of share groups is pruned", ShareStateShards, "_noted"),
    Step("an earlier rebalance is forgotten", GroupRebalances, "_forget_oldest"),
)
"""What runs are to reach."""
RARE = frozenset({"an unfinished swap of segments is found", "an offset expires"})
"""What a few seeds need not reach."""
NOT_OF_ONE = frozenset({"a log is cut", "the journal is emptied"})
"""What only happens where there are others."""


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Yield how often each step was taken within the block."""
    reached = Counter[str]()
    with ExitStack() as undone:
        for step in STEPS:
            function = _counting(step, getattr(step.owner, step.name), reached)
            undone.enter_context(patch.object(step.owner, step.name, function))
        yield reached


def _counting(step: Step, function: Callable[..., Any], reached: Counter[str]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        if step.counts(arguments, result):
            reached[step.words] += 1
        return result

    return call


def missed(scenario: str, reached: Counter[str]) -> list[str]:
    """Return the words of what the runs of a scenario have not reached, though a few seeds should."""
    left_out = RARE | NOT_OF_ONE if scenario == "one" else RARE
    return [each.words for each in STEPS if each.words not in left_out and not reached[each.words]]
