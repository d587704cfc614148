"""What stands in a region's log: a compacted topic of one partition, written and read by all.

A key's newest value says all there is to know, so that compaction loses nothing:

    member/NAME/TOKEN  Report       how a process that has this name stands
    operator/ASKED     Command      what was asked for by hand
    claim/TOKEN        Claim        a coordinator takes over; the offset of this entry is its epoch
    state/EPOCH        RegionState  what the coordinator of that epoch decided

Who was coordinator before may still write: its states have an older epoch, which nobody goes by.
"""

from enum import StrEnum

import msgspec

Offsets = dict[str, int]
"""The next offset of each partition, which is named TOPIC-NUMBER."""


TopicIds = dict[str, str]
"""The id of each topic: one that was deleted and created again has another one."""


class EntryError(ValueError):
    """Something else than an entry stands in a region's log."""


class Phase(StrEnum):
    """What the members of a region have to do now."""

    GATHERING = "gathering"  # Register: not all of them were there yet.
    RESETTING = "resetting"  # Go back to the last checkpoint.
    RUNNING = "running"  # Process.
    CHECKPOINTING = "checkpointing"  # Drain, and contribute.
    FAILED = "failed"  # Wait for a reset by hand.


class Asked(StrEnum):
    """What an operator may ask for."""

    CHECKPOINT = "checkpoint"
    RESET = "reset"
    RESTART = "restart"  # Forget all checkpoints: first states, initial offsets.


class MemberState(StrEnum):
    """How a member stands; `membership` says what leads from one to another."""

    SUBSCRIBED = "subscribed"
    POLLING = "polling"
    DRAINED = "drained"
    RESET_PENDING = "reset pending"
    RESET_COMPLETE = "reset complete"


class Contribution(msgspec.Struct, frozen=True):
    """A member's part of a checkpoint: where it stands in its partitions, and where its state is kept.

    `topic_ids` has the id of each topic of these partitions, as far as the broker knows ids.
    """

    sequence_id: int
    attempt: int
    generation_id: int
    offsets: Offsets
    saved: str | None = None
    topic_ids: TopicIds = {}


class ResetRequest(msgspec.Struct, frozen=True):
    """A member cannot go on with an attempt. Forced: nothing has failed, partitions have moved."""

    attempt: int
    forced: bool
    reason: str


class Report(msgspec.Struct, frozen=True):
    """All that a member says. `number` counts the processes that had its name; it has reset to `attempt`.

    `generation_id` is that of the consumer group, -1 for a process that is not in it. `group_id` and
    `group_instance_id` say who it is there, as far as it has such names.
    """

    name: str
    index: int
    number: int
    token: str
    attempt: int = 0
    wanted: ResetRequest | None = None
    contribution: Contribution | None = None
    initial: Offsets = {}
    state: MemberState = MemberState.SUBSCRIBED
    generation_id: int = -1
    topic_ids: TopicIds = {}
    group_id: str = ""
    group_instance_id: str = ""


class Command(msgspec.Struct, frozen=True):
    """What an operator asks for; a higher number is another wish.

    With RESTART the member `without` is no member any more, and another process may take its place.
    """

    number: int
    asked: Asked
    without: str = ""


class Claim(msgspec.Struct, frozen=True):
    """A coordinator takes over."""

    token: str


class Member(msgspec.Struct, frozen=True):
    """Whose name it is."""

    number: int
    token: str


class RegionState(msgspec.Struct, frozen=True):
    """What the coordinator has decided: all that it needs to go on, and members to obey.

    `offsets` and `saved` are of the checkpoint `completed` (0: none yet), which was complete at
    `completed_at_ms`, milliseconds since 1970 (0: none, or it was forgotten). `initial` is where partitions
    are read from that no checkpoint knows. Both are of topics with these `topic_ids`; `retired_topic_ids` are
    of topics that had one of the names before. `refused` has the reason for each token that is not let in.
    `size` is how many members the region has to have; 0 where nobody has said it yet.
    """

    epoch: int
    phase: Phase = Phase.GATHERING
    attempt: int = 0
    sequence_id: int = 0
    completed: int = 0
    members: dict[str, Member] = {}
    offsets: Offsets = {}
    saved: dict[str, str | None] = {}
    initial: Offsets = {}
    consecutive_resets: int = 0
    reason: str = ""
    command: int = 0
    refused: dict[str, str] = {}
    topic_ids: TopicIds = {}
    retired_topic_ids: tuple[str, ...] = ()
    size: int = 0
    completed_at_ms: int = 0

    def start_of(self, partition: str) -> int | None:
        """Return where a member that resets reads from; None as long as that is not decided."""
        found = self.offsets.get(partition)
        return self.initial.get(partition) if found is None else found


Entry = Report | Command | Claim | RegionState
_TYPES: dict[str, type[Report] | type[Command] | type[Claim] | type[RegionState]] = {
    "member": Report,
    "operator": Command,
    "claim": Claim,
    "state": RegionState,
}


def key_of(entry: Entry) -> bytes:
    """Return the key that an entry is kept under."""
    match entry:
        case Report():
            return f"member/{entry.name}/{entry.token}".encode()
        case Command():
            return f"operator/{entry.asked}".encode()
        case Claim():
            return f"claim/{entry.token}".encode()
        case RegionState():
            return b"state/%d" % entry.epoch


def encode(entry: Entry) -> bytes:
    """Return an entry's value, JSON."""
    return msgspec.json.encode(entry)


def decode(key: bytes | None, value: bytes) -> Entry:
    """Return the entry. Raises: EntryError."""
    kind = (key or b"").partition(b"/")[0].decode(errors="replace")
    if kind not in _TYPES:
        raise EntryError(f"no entry of a region has the key {key!r}")
    try:
        return msgspec.json.decode(value, type=_TYPES[kind])
    except msgspec.MsgspecError as error:
        raise EntryError(f"{key!r}: {error}") from error


def topic_of(partition: str) -> str:
    """Return the topic of a partition that is named TOPIC-NUMBER."""
    return partition.rpartition("-")[0]
