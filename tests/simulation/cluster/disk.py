"""What a machine keeps: logs whose end may not be on the disk yet, and what a power failure leaves."""

from random import Random
from typing import NamedTuple
from uuid import UUID

from kohort.storage.leader_epochs import LeaderEpochs


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

    def crash(self, lost_power: bool, random: Random) -> None:
        """Become what the next process finds."""
        self.logs = {index: log.after_crash(lost_power, random) for index, log in self.logs.items()}
