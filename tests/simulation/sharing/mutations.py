"""The mutants of share groups."""

from tests.simulation.mutant import Edit, Mutant
from tests.simulation.operations import (
    argument,
    assign,
    compare,
    drop_assignment,
    drop_call,
    drop_if,
    holds,
    instead_of_call,
    replace,
    without,
)

SHARE = "kohort.broker.group.share"
SHARE_STATE = "kohort.broker.share_state"
COORDINATION = "kohort.broker.coordination"
HANDLERS = "kohort.broker.handlers"

MUTANTS = (
    Mutant(
        "a delivery does not count",
        Edit(f"{SHARE}.partition", "SharePartition.acquire", drop_assignment("batch.delivery_count")),
        is_of_sharing=True,
    ),
    Mutant(
        "a record is delivered once more than its limit",
        Edit(f"{SHARE}.partition", "SharePartition._after", compare("delivery_count", "<", "<=")),
        is_of_sharing=True,
    ),
    Mutant(
        "a record that is held is handed out",
        Edit(
            f"{SHARE}.partition",
            "SharePartition._cut_available",
            replace("batch.state is RecordState.AVAILABLE", "not batch.is_settling"),
        ),
        is_of_sharing=True,
    ),
    Mutant(
        "a lock ends while its record's next state is written",
        Edit(f"{SHARE}.in_flight", "InFlightBatch.is_held", without("is_settling")),
        is_of_sharing=True,
    ),
    Mutant(
        "records of several fates are joined",
        Edit(f"{SHARE}.in_flight", "InFlightBatch.is_like", without("is_held_like")),
        is_of_sharing=True,
    ),
    Mutant(
        "locks do not end",
        Edit(f"{COORDINATION}.led_share_partition", "LedSharePartition.acquire", drop_if("acquired")),
        is_of_sharing=True,
    ),
    Mutant(
        "a word is told to be kept before it is",
        Edit(
            f"{COORDINATION}.led_share_partition",
            "LedSharePartition.acknowledge",
            instead_of_call(
                "self._write", "self._write(write, _ignore, is_settled=False)\ndone(ErrorCode.NONE)"
            ),
        ),
        is_of_sharing=True,
    ),
    Mutant(
        "who leads next writes no dead letters that are missing",
        Edit(
            f"{COORDINATION}.led_share_partition",
            "LedSharePartition._begin",
            drop_call("_request_dead_letters_of"),
        ),
        is_of_sharing=True,
    ),
    Mutant(
        "a dead letter is not written",
        Edit(f"{COORDINATION}.dead_letters", "DeadLetters._write_one", drop_call("_write_all")),
        is_of_sharing=True,
    ),
    Mutant(
        "aborted records of a later segment are handed out",
        Edit(f"{HANDLERS}.share.share_reading", "_without_aborted", argument("aborted_from", 1, None)),
        is_of_sharing=True,
    ),
    Mutant(
        "records of open transactions are handed out",
        Edit(
            f"{COORDINATION}.led_share_partition",
            "LedSharePartition.end_offset",
            holds("wants_committed", False),
        ),
        is_of_sharing=True,
    ),
    Mutant(
        "a snapshot of share state leaves its last update out",
        Edit(f"{SHARE_STATE}.coordinator", "ShareStateCoordinator._update_record", drop_call("update")),
        is_of_sharing=True,
    ),
    Mutant(
        "an update of share state replaces what touches it",
        Edit(f"{SHARE_STATE}.state", "overlay", holds("old.last_offset", False)),
        is_of_sharing=True,
    ),
    Mutant(
        "the group epoch is not replayed",
        Edit(
            "kohort.broker.group.epochs.replaying",
            "replays.replay_group_epoch",
            assign("group.generation_id", "max(group.generation_id, 1)"),
        ),
        is_of_sharing=True,
    ),
)
