"""A topic: what its leaders have, and what the follower has told them."""

from dataclasses import dataclass, field
from uuid import UUID

from kohort.protocol.records import build_batch, iterate_records, read_header
from kohort.storage import PartitionLog
from tests.simulation.cluster.disk import MemoryLog, Record

FETCHED_MAX = 3


@dataclass(slots=True)
class Topic:
    """A topic of one partition: what its leaders have, and what this broker told them it has on its disk."""

    name: str
    topic_id: UUID
    leader: MemoryLog = field(default_factory=MemoryLog)
    leader_epoch: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    is_here: bool = True
    told: list[Record] = field(default_factory=list)
    told_as_strict: int = 0
    committed: int = 0
    is_fetching: bool = False
    may_be_offline: bool = False
    waits_since: int = 0
    cut_at: int | None = None
    """Where the log was cut, until the leader hears of something behind that."""
    gone: set[object] = field(default_factory=set)
    """What was cut from this broker's log, or went with it, and has not been fetched again."""
    left: set[object] = field(default_factory=set)
    """What the log had when the replica moved away."""

    def cut_told(self, offset: int) -> None:
        del self.told[offset:]
        self.told_as_strict = min(self.told_as_strict, offset)


def values_of(log: PartitionLog) -> list[tuple[bytes, int]]:
    """Return all values with their leader epochs."""
    return [
        (record.value or b"", read_header(batch).partition_leader_epoch)
        for batch in log.read_batches()
        for record in iterate_records(batch)
    ]


def records_of(log: PartitionLog) -> list[Record]:
    """Return what a log has, as leaders have it."""
    return [Record(epoch, int(value.rstrip(b"."))) for value, epoch in values_of(log)]


def values_in(log: PartitionLog) -> set[object]:
    """Return all values of a log."""
    return {each.value for each in records_of(log)}


def batches(leader: MemoryLog, offset: int) -> bytes:
    """Return what a leader gives from there on, a batch for each record."""
    found = bytearray()
    for place, record in enumerate(leader.records[offset : offset + FETCHED_MAX], offset):
        assert isinstance(record.value, int)
        batch = bytearray(build_batch([(0, None, b"%d" % record.value, ())]))
        batch[:8] = place.to_bytes(8, "big")
        batch[12:16] = record.epoch.to_bytes(4, "big")
        found += batch
    return bytes(found)
