"""What a test expects of a broker, in words, and what was seen instead.

Each function here describes an expectation. `Broker` and `AsyncBroker` have a method `expect_...` for each,
which waits until it is true.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, TypeVar

from kohort.broker.explain.explanation import explanation, timeline_of
from kohort.protocol.errors import ErrorCode
from kohort.testing.controls import BrokerControls
from kohort.testing.errors import BrokerFailed, NotInTime, UnexpectedRebalance
from kohort.testing.groups import Group, Record, ends_of, group_view
from kohort.testing.report import outcome_of
from kohort.testing.requests import Requests, SeenRequest, check_api
from kohort.testing.waiting import TIMEOUT_SECONDS

T = TypeVar("T")

LAST_REQUESTS = 12
REBALANCES_EXPLAINED = 3
VALUES_SHOWN = 10


class NotSeen(Exception):
    """What was seen instead. `is_final`: it cannot become what was expected."""

    def __init__(self, seen: str, *, is_final: bool = False) -> None:
        super().__init__(seen)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Expectation(Generic[T]):
    """What a test expects within a time."""

    words: str
    look: Callable[[BrokerControls], T]
    """Returns what the test gets. Raises: NotSeen."""
    within_seconds: float
    group: str | None = None
    """The group that a failure explains."""

    def check(self, broker: BrokerControls, deadline: float) -> tuple[T] | None:
        """Return what was expected, or None while there is time left. Raises: NotInTime."""
        try:
            return (self.look(broker),)
        except NotSeen as error:
            if error.is_final or time.monotonic() >= deadline:
                raise NotInTime(failure(broker, self.words, str(error), self.group)) from None
        return None


def failure(broker: BrokerControls, words: str, seen: str, group: str | None) -> str:
    """Return the text of a failed expectation: what was seen, the last requests, why the group rebalanced."""
    lines = [f"expected {words}", f"seen instead: {seen}", "", "the last requests:"]
    lines += [f"  {each}" for each in last_requests(broker.requests)] or ["  none"]
    if group is not None:
        lines += ["", f"kohort groups explain {group}:", *(f"  {each}" for each in explain(broker, group))]
    return "\n".join([*lines, "", broker.report()])


def last_requests(requests: Sequence[SeenRequest], count: int = LAST_REQUESTS) -> Iterator[str]:
    """Yield a line for each of the last requests; the same request several times in a row has one line."""
    runs = [
        (what, len(list(run)))
        for what, run in groupby(requests, lambda each: (each.client_id, each.api, outcome_of(each)))
    ]
    for (client_id, api, outcome), times in runs[-count:]:
        repeated = f" x{times}" if times > 1 else ""
        yield f"{client_id!r} {api}{repeated}" + (f": {outcome}" if outcome else "")


def explain(broker: BrokerControls, group: str) -> list[str]:
    """Return the text of `kohort groups explain`."""
    try:
        view, now_ms = broker._core.call(
            lambda real: (group_view(real, group), real.clock.now_ms())  # One look at both.
        )
    except BrokerFailed as error:
        return [str(error)]
    if view is None:
        return [f"{group}: there is no such group."]
    lines = explanation(group, timeline_of(view), REBALANCES_EXPLAINED, now_ms)
    return [each for each in lines if each]


# -- expectations -----------------------------------------------------------------------------------------


def commit(
    *, group: str, topic: str, partition: int = 0, offset: int, within_seconds: float = TIMEOUT_SECONDS
) -> Expectation[Group]:
    """Wait until the group's committed offset of a partition is exactly `offset`. Return the group.

    Raises: NotInTime, with what was committed instead, the last requests and why the group rebalanced.
    """

    def look(broker: BrokerControls) -> Group:
        found = find_group(broker, group)
        committed = found.offsets.get((topic, partition))
        if committed == offset:
            return found
        if committed is not None:
            raise NotSeen(f"offset {committed} is committed")
        others = ", ".join(f"{name}-{index}: {value}" for (name, index), value in found.offsets.items())
        raise NotSeen(f"nothing is committed of {topic}-{partition} (committed: {others or 'nothing'})")

    words = f"group {group!r} to commit offset {offset} of {topic}-{partition} within {within_seconds:g} s"
    return Expectation(words, look, within_seconds, group)


def members(
    *,
    group: str,
    count: int | None = None,
    clients: Iterable[str] | None = None,
    within_seconds: float = TIMEOUT_SECONDS,
) -> Expectation[Group]:
    """Wait until the group is stable with `count` members, or with members of these client ids. Return it.

    With `count=0` it waits until the group is empty.

    Raises: NotInTime, with the members and why the group rebalanced; ValueError for neither or both.
    """
    if (count is None) == (clients is None):
        raise ValueError("give either count=, the number of members, or clients=, their client ids")
    wanted = None if clients is None else Counter([clients] if isinstance(clients, str) else clients)
    size = wanted.total() if wanted is not None else count or 0

    def look(broker: BrokerControls) -> Group:
        found = find_group(broker, group)
        names = Counter(each.client_id for each in found.members)
        is_settled = found.state in ("Stable", "Empty")
        if is_settled and (names == wanted if wanted is not None else len(found.members) == size):
            return found
        raise NotSeen(
            f"it is {found.state} with {len(found.members)} members: {', '.join(names.elements()) or 'none'}"
        )

    of = f": {', '.join(wanted.elements())}" if wanted is not None else ""
    words = f"group {group!r} to be stable with {size} members{of} within {within_seconds:g} s"
    return Expectation(words, look, within_seconds, group)


def records(
    *,
    topic: str,
    count: int | None = None,
    values: Iterable[bytes | None] | None = None,
    within_seconds: float = TIMEOUT_SECONDS,
) -> Expectation[tuple[Record, ...]]:
    """Wait until a topic has exactly `count` records, or exactly these values. Return the records.

    Values are in the order of offsets if the topic has one partition, otherwise in any order. Records of
    aborted and of open transactions do not count.

    Raises: NotInTime, with the records that it has, at once if there are too many; ValueError for neither or
    both of `count` and `values`.
    """
    if (count is None) == (values is None):
        raise ValueError("give either count=, the number of records, or values=, their values")
    wanted = None if values is None else tuple(values)
    size = len(wanted) if wanted is not None else count or 0

    def look(broker: BrokerControls) -> tuple[Record, ...]:
        try:
            found = broker.records(topic)
        except KeyError:
            raise NotSeen(f"there is no topic {topic!r} (topics: {_names(topics_of(broker))})") from None
        if len(found) > size:
            raise NotSeen(_values(found), is_final=True)
        if len(found) < size or (
            wanted is not None and not _are_same(found, wanted, topics_of(broker)[topic])
        ):
            raise NotSeen(_values(found), is_final=len(found) == size)
        return found

    these = f"the values {list(wanted)!r}" if wanted is not None else f"{size} records"
    return Expectation(f"topic {topic!r} to have {these} within {within_seconds:g} s", look, within_seconds)


def request(
    api: str,
    *,
    client: str | None = None,
    error: ErrorCode | None = None,
    count: int = 1,
    within_seconds: float = TIMEOUT_SECONDS,
) -> Expectation[Requests]:
    """Wait for `count` requests of an API, or more. Return them.

    `client` is a client id. With `error` only requests that were answered with this error count.

    Raises: NotInTime, with the last requests; ValueError for an unknown API.
    """
    check_api(api)

    def look(broker: BrokerControls) -> Requests:
        same = broker.requests.of(api, client_id=client)
        found = Requests(tuple(each for each in same if error is None or error in each.errors))
        if len(found) >= count:
            return found
        outcomes = Counter(outcome_of(each) or "answered without an error" for each in same)
        raise NotSeen(", ".join(f"{times} {each}" for each, times in outcomes.items()) or "none")

    of = "" if client is None else f" of client {client!r}"
    with_error = "" if error is None else f" answered {error.name}"
    words = f"{count} {api} requests{of}{with_error} within {within_seconds:g} s"
    return Expectation(words, look, within_seconds)


def no_lag(*, group: str, topic: str, within_seconds: float = TIMEOUT_SECONDS) -> Expectation[Group]:
    """Wait until the group has committed the end of every partition with records. Return the group.

    The end is the offset behind the last record that consumers can read. What lies behind that counts for
    nothing: the marker of a transaction, or records that retention has deleted.

    Raises: NotInTime, with the lag of each partition and why the group rebalanced.
    """

    def look(broker: BrokerControls) -> Group:
        ends = topics_of(broker).get(topic)
        if ends is None:
            raise NotSeen(f"there is no topic {topic!r} (topics: {_names(topics_of(broker))})")
        found = find_group(broker, group)
        behind = {
            index: committed
            for index, end in ends.items()
            if end != (committed := found.offsets.get((topic, index), 0))
        }
        left = Counter(
            each.partition
            for each in (broker.records(topic) if behind else ())
            if each.offset >= behind.get(each.partition, each.offset + 1)
        )
        lags = {
            f"{topic}-{index}": left[index] or ends[index] - committed
            for index, committed in behind.items()
            if left[index] or committed > ends[index]
        }
        if lags:
            raise NotSeen(f"it lags by {', '.join(f'{lag} of {where}' for where, lag in lags.items())}")
        return found

    words = f"group {group!r} to commit all of topic {topic!r} within {within_seconds:g} s"
    return Expectation(words, look, within_seconds, group)


@contextmanager
def no_rebalance(broker: BrokerControls, *, group: str) -> Iterator[None]:
    """Check at the end of the `with` block that no rebalance of the group began in it.

    Raises: UnexpectedRebalance, with why it rebalanced.
    """
    before = _rebalances(broker, group)
    yield
    new = [each for each in _rebalances(broker, group) if each not in before]
    if new:
        words = f"no rebalance of group {group!r} in the block"
        raise UnexpectedRebalance(failure(broker, words, f"{len(new)} began", group))


# -- what is seen -----------------------------------------------------------------------------------------


def find_group(broker: BrokerControls, group: str) -> Group:
    """Return the group. Raises: NotSeen."""
    groups = broker.groups
    if group not in groups:
        raise NotSeen(f"there is no group {group!r} (groups: {_names(groups)})")
    return groups[group]


def topics_of(broker: BrokerControls) -> dict[str, dict[int, int]]:
    """Return the end offset of each partition of each topic, as consumers see it with read_committed."""
    return broker._core.call_async(ends_of)


def _rebalances(broker: BrokerControls, group: str) -> list[int]:
    """Return when each known rebalance of the group began, in milliseconds."""
    view = broker._core.call(lambda real: group_view(real, group))
    if view is None:
        return []
    ongoing = [] if view.rebalance is None else [view.rebalance.started_ms]
    return [*(each.started_ms for each in view.history), *ongoing]


def _are_same(found: Sequence[Record], wanted: Sequence[bytes | None], partitions: Collection[int]) -> bool:
    values = [each.value for each in found]
    return values == list(wanted) if len(partitions) == 1 else Counter(values) == Counter(wanted)


def _values(found: Sequence[Record]) -> str:
    shown = ", ".join(f"{each.partition}-{each.offset}: {each.value!r}" for each in found[-VALUES_SHOWN:])
    return f"it has {len(found)} records" + (f", the last ones {shown}" if found else "")


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
