"""What a machine keeps: logs whose end may not be on the disk yet, and what a power failure leaves."""

from random import Random
from typing import NamedTuple
from uuid import UUID

from kohort.broker.replication import Found, has_all
from kohort.storage.leader_epochs import LeaderEpochs

TAIL_RECORDS_MAX = 40
WHOLE = Found(was_stopped=False, is_last_life=True, is_same_boot=True, is_synced=True, is_short=False)


class Record(NamedTuple):
    """One record, by the epoch that it was written in."""

    epoch: int
    value: int


class MemoryLog:
    """One partition's log: this is replication's `ReplicatedLog`."""

    def __init__(self, records: list[Record] | None = None, flushed_offset: int = 0) -> None:
        self.records = [] if records is None else records
        self.log_start_offset = 0
        self.flushed_offset = flushed_offset
        self.is_syncing = False
        self._epochs = LeaderEpochs()
        for offset, record in enumerate(self.records):
            self._epochs.assign(record.epoch, offset)

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    @property
    def latest_epoch(self) -> int:
        return self._epochs.latest

    @property
    def epochs(self) -> LeaderEpochs:
        return self._epochs

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    def assign_epoch(self, epoch: int) -> None:
        self._epochs.assign(epoch, self.log_end_offset)

    def append(self, record: Record) -> None:
        self._epochs.assign(record.epoch, self.log_end_offset)
        self.records.append(record)

    def truncate(self, offset: int) -> None:
        """Cut the log, on the disk as well."""
        del self.records[offset:]
        self._epochs.truncate_from(offset)
        self.flushed_offset = self.log_end_offset

    def after_crash(self, lost_power: bool, random: Random) -> "MemoryLog":
        """Return the log that the next process finds, all of it synced before it is used."""
        kept = self.log_end_offset
        if lost_power:
            kept = random.randint(self.flushed_offset, self.log_end_offset)
        return MemoryLog(self.records[:kept], kept)


class Disk:
    """A machine's data folder."""

    def __init__(self, directory_id: UUID) -> None:
        self.directory_id = directory_id
        self.logs: dict[int, MemoryLog] = {}
        self.high_watermarks: dict[int, int] = {}  # As they were last written down.
        self.sync_ms = 2
        self.former_ids: tuple[UUID, ...] = ()
        self.found = WHOLE
        """What the next process finds that speaks for the folder, or against it."""

    def crash(self, lost_power: bool, random: Random) -> None:
        """Become what the next process finds."""
        self.logs = {index: log.after_crash(lost_power, random) for index, log in self.logs.items()}
        self.found = self.found._replace(
            was_stopped=False, is_same_boot=self.found.is_same_boot and not lost_power
        )

    def lose_tails(self, found: "Found", random: Random) -> None:
        """Lack what was synced last, or passed for synced: all that tells of it is what is `found`."""
        for index, log in self.logs.items():
            kept = max(0, log.log_end_offset - random.randrange(TAIL_RECORDS_MAX))
            self.logs[index] = MemoryLog(log.records[:kept], kept)
        self.found = found

    def begin(self, new_id: UUID) -> None:
        """Let a process have the folder: under another id where nothing proves that it is whole."""
        if not has_all(self.found):
            self.former_ids = (self.directory_id, *self.former_ids)
            self.directory_id = new_id
        self.found = WHOLE
