"""A log's life, cut short behind every single operation: what was promised is there, and nothing else.

The process dies (all that was written is there) or the machine does (what was not synced is lost, kept
or torn by the seed). The data folder is then opened again, read, appended to, and opened once more.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple
from uuid import UUID

import pytest

from kohort.protocol.records import Compression, build_batch, iterate_batches, read_header
from kohort.storage import DataDirectory, LogConfig, PartitionLog, StorageError
from kohort.storage.memory_filesystem import MemoryFileSystem
from tests.repetitions import repetitions

ROOT = Path("/data")
TOPIC_ID = UUID(int=77)
CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=200)
EPOCH_BYTES = slice(12, 16)


class Promise(NamedTuple):
    """What held once so many operations were done."""

    operations: int
    flushed_offset: int
    log_start_offset: int


class Life:
    """A log that is staged to, written, restarted by the seed; it remembers what it promised."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.file_system = MemoryFileSystem()
        self.batches: list[bytes] = []  # As they should be found, in order.
        self.promises: list[Promise] = []
        self.sequence = 0
        self.directory, self.log = opened(self.file_system)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step(self.random.randrange(20))

    def step(self, dice: int) -> None:
        if dice < 13:
            self.stage()
        elif dice < 17:
            self.log.write(dice < 16)
        elif dice == 17:
            self.directory.checkpoint()
        elif dice == 18:
            self.log.write(True)
            self.log.delete_records_before(self.random.randrange(self.log.log_end_offset + 1), 0)
            self.directory.checkpoint()
        elif self.random.randrange(3) == 0:
            self.directory.close()
            self.directory, self.log = opened(self.file_system)
        self.promises.append(
            Promise(len(self.file_system.operations), self.log.flushed_offset, self.log.log_start_offset)
        )

    def stage(self) -> None:
        count = self.random.randrange(1, 4)
        value = self.random.randbytes(self.random.randrange(120))
        batch = build_batch(
            [(1000 + len(self.batches), b"key", value, ())] * count,
            base_offset=self.log.log_end_offset,
            leader_epoch=len(self.batches) // 10,
            compression=self.random.choice((Compression.NONE, Compression.LZ4)),
            producer_id=5,
            producer_epoch=0,
            base_sequence=self.sequence,
        )
        self.sequence += count
        self.batches.append(batch)
        self.log.stage(batch, (read_header(batch),), epoch_of(batch))


@contextmanager
def noted(where: str) -> Iterator[None]:
    """Say where it was when something fails: the seed and the operation make it happen again."""
    try:
        yield
    except (AssertionError, StorageError) as error:
        error.add_note(where)
        raise


def epoch_of(batch: bytes) -> int:
    return int.from_bytes(batch[EPOCH_BYTES], "big")


def opened(file_system: MemoryFileSystem) -> tuple[DataDirectory, PartitionLog]:
    directory = DataDirectory.open(ROOT, file_system)
    return directory, directory.open_log("orders", TOPIC_ID, 0, CONFIG)


def found_batches(log: PartitionLog) -> list[bytes]:
    """Return what readers are given, by offsets, as a consumer would ask for it."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while data := log.read(offset, 500, log.written_offset).read():
        whole = [bytes(batch) for batch in iterate_batches(data, check_crcs=True)]
        assert whole, "at least one batch is whole"
        found += whole
        offset = read_header(whole[-1]).next_offset
    return found


def check(life: Life, survivor: MemoryFileSystem, operations: int) -> None:
    """Open what survived and compare it with what had been promised, twice."""
    promise = max((each for each in life.promises if each.operations <= operations), default=Promise(0, 0, 0))
    _, log = opened(survivor)
    end = log.log_end_offset
    assert end >= promise.flushed_offset
    assert log.log_start_offset >= promise.log_start_offset
    expected = [
        batch
        for batch in life.batches
        if read_header(batch).next_offset > log.log_start_offset and read_header(batch).base_offset < end
    ]
    assert found_batches(log) == expected
    assert [bytes(batch) for batch in log.read_batches(log.log_start_offset)] == expected
    check_derived_state(log, expected)
    batch = build_batch([(9_000_000, b"after", b"the crash", ())], base_offset=end, leader_epoch=99)
    assert log.stage(batch, (read_header(batch),), 99) == end
    log.write(True)
    assert log.offset_for_timestamp(9_000_000) == (end, 9_000_000, 99)
    with closing(survivor), closing(survivor.after_crash(choose=life.random.randrange)) as second:
        _, log = opened(second)
        assert found_batches(log) == [*expected, batch]
        assert log.latest_epoch == 99


def check_derived_state(log: PartitionLog, expected: list[bytes]) -> None:
    """Indexes, epochs and producers say what the batches say."""
    if not expected:
        return
    last = read_header(expected[-1])
    assert log.latest_epoch == last.partition_leader_epoch
    assert log.max_timestamp >= last.max_timestamp
    for batch in expected:
        header = read_header(batch)
        assert log.epoch_at(max(header.base_offset, log.log_start_offset)) == header.partition_leader_epoch
        found = log.offset_for_timestamp(header.max_timestamp)
        assert found is not None
        assert found.offset == max(header.base_offset, log.log_start_offset)
    ((producer_id, state),) = log.producers.items()
    assert (producer_id, state.last_sequence) == (5, last.last_sequence)


@pytest.mark.parametrize("seed", range(repetitions(2, by_night=16)))
def test_a_log_is_intact_after_a_power_failure_at_any_operation(seed: int) -> None:
    life = Life(seed)
    life.run(80)
    for operations in range(len(life.file_system.operations) + 1):
        for attempt in range(2):
            random = Random(f"{seed} {operations} {attempt}")
            with noted(f"seed {seed}, the machine dead behind operation {operations}, attempt {attempt}"):
                check(life, life.file_system.after_crash(operations, random.randrange), operations)


@pytest.mark.parametrize("seed", range(repetitions(2, by_night=16)))
def test_a_log_is_intact_after_a_kill_at_any_operation(seed: int) -> None:
    life = Life(seed)
    life.run(80)
    for operations in range(len(life.file_system.operations) + 1):
        with noted(f"seed {seed}, killed behind operation {operations}"):
            check(life, life.file_system.after_crash(operations), operations)
