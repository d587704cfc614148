"""Any log, compacted and trimmed: what must be kept is, and a crash behind any operation changes nothing.

A log is made by the seed: keys that come again, tombstones, records without a key, idempotent producers,
transactions, every codec. It is compacted in rounds, with a map that is now large and now small, while
more is appended; its view, the newest value of each key, has to stay what a plain dictionary says.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple
from uuid import UUID

import pytest

from kohort.protocol.records import (
    Compression,
    ControlType,
    build_batch,
    build_transaction_marker,
    iterate_records,
    read_header,
    verify_crc,
)
from kohort.storage import DataDirectory, LogConfig, PartitionLog, StorageError
from kohort.storage.cleaning import LogCleaning, plan_cleaning
from kohort.storage.memory_filesystem import MemoryFileSystem
from tests.repetitions import repetitions

ROOT = Path("/data")
TOPIC_ID = UUID(int=78)
DELETE_RETENTION_MS = 5_000
KEYS_MAX = (3, 1_000)
COMPACT = LogConfig(
    segment_bytes=900,
    index_interval_bytes=150,
    cleanup_policy=("compact",),
    delete_retention_ms=DELETE_RETENTION_MS,
)
DELETE = LogConfig(segment_bytes=900, index_interval_bytes=150, retention_ms=10_000, retention_bytes=4_000)

Content = tuple[int, bytes | None, bytes | None]  # Timestamp, key, value.


class Promise(NamedTuple):
    """What held once so many operations were done; a start that was checkpointed is never lost."""

    operations: int
    end_offset: int
    start_offset: int


def opened(file_system: MemoryFileSystem, config: LogConfig) -> tuple[DataDirectory, PartitionLog]:
    directory = DataDirectory.open(ROOT, file_system)
    return directory, directory.open_log("orders", TOPIC_ID, 0, config)


class Life:
    """A log that grows and is cleaned by the seed, and what a reader may expect of it."""

    def __init__(self, seed: int, config: LogConfig) -> None:
        self.random = Random(seed)
        self.config = config
        self.file_system = MemoryFileSystem()
        self.directory, self.log = opened(self.file_system, config)
        self.written: dict[int, Content] = {}  # Every record of the data that was not aborted.
        self.aborted: set[int] = set()
        self.sequences = {5: 0, 6: 0}
        self.now_ms = 100_000
        self.promises: list[Promise] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now_ms += 200
            dice = self.random.randrange(20)
            if dice < 14:
                self.append()
            elif dice < 16:
                self.run_transaction()
            elif dice < 19:
                self.clean()
            else:
                self.log.remove_deleted_files(self.now_ms)
                self.directory.checkpoint()
            self.promises.append(
                Promise(
                    len(self.file_system.operations),
                    self.log.flushed_offset,
                    self.directory.records._records["orders", 0].log_start_offset or 0,
                )
            )

    def batch(self, **numbers: object) -> bytes:
        contents: list[Content] = []
        for _ in range(self.random.randrange(1, 5)):
            key = None if self.random.random() < 0.05 else b"key %d" % self.random.randrange(12)
            value = None if self.random.random() < 0.2 else self.random.randbytes(self.random.randrange(50))
            contents.append((self.now_ms + self.random.randrange(-300, 300), key, value))
        offset = self.log.log_end_offset
        self.written.update(enumerate(contents, offset))
        return build_batch(
            [(timestamp, key, value, ()) for timestamp, key, value in contents],
            base_offset=offset,
            leader_epoch=0,
            compression=self.random.choice(list(Compression)),
            **numbers,  # type: ignore[arg-type]
        )

    def append(self) -> None:
        if self.random.random() < 0.5:
            self.stage(self.batch())
        else:
            producer_id = self.random.choice((5, 6))
            self.stage_numbered(producer_id, is_transactional=False)
        self.log.write(True)

    def stage(self, batch: bytes) -> None:
        self.log.stage(batch, (read_header(batch),), 0)

    def stage_numbered(self, producer_id: int, *, is_transactional: bool) -> None:
        sequence = self.sequences[producer_id]
        batch = self.batch(
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        self.sequences[producer_id] = sequence + read_header(batch).record_count
        self.stage(batch)

    def run_transaction(self) -> None:
        """Write a transaction whole: the cleaner is never shown one that is open."""
        first_offset = self.log.log_end_offset
        producer_id = self.random.choice((5, 6))
        for _ in range(self.random.randrange(3)):
            self.stage_numbered(producer_id, is_transactional=True)
        kind = self.random.choice((ControlType.COMMIT, ControlType.ABORT))
        if kind is ControlType.ABORT:
            gone = range(first_offset, self.log.log_end_offset)
            self.aborted.update(gone)
            for offset in gone:
                del self.written[offset]
        marker = build_transaction_marker(
            kind, timestamp_ms=self.now_ms, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0
        )
        self.stage(marker)
        self.log.write(True)

    def clean(self) -> None:
        self.log.delete_old_segments(self.log.written_offset, self.now_ms)
        if self.config.is_compacted:
            clean_once(self.directory, self.log, self.now_ms, self.random.choice(KEYS_MAX))


def clean_once(directory: DataDirectory, log: PartitionLog, now_ms: int, keys_max: int) -> None:
    open_transactions = [state.transaction_first_offset for _, state in log.producers.items()]
    plan = plan_cleaning(
        log.segments,
        log.config,
        checkpoint=directory.records.cleaner_offset("orders", 0),
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=min((each for each in open_transactions if each >= 0), default=log.written_offset),
        now_ms=now_ms,
    )
    cleaning = LogCleaning.of(log, plan, now_ms=now_ms, keys_max=keys_max, progress=lambda _: None)
    for replacement in cleaning.replacements():
        assert log.replace_segments(replacement, now_ms)
    directory.save_cleaner_offset("orders", 0, cleaning.end_offset, cleaned=log)


def contents_of(life: Life, log: PartitionLog) -> dict[int, Content]:
    """Return the records by offset, as they are found by fetches; offsets grow, batches are whole."""
    found: dict[int, Content] = {}
    offset, last = log.log_start_offset, -1
    while data := log.read(offset, 1, log.written_offset).read():
        header = read_header(data)
        verify_crc(data)
        assert header.base_offset > last
        if not header.is_control:
            for record in iterate_records(data):
                assert last < record.offset <= header.last_offset
                last = record.offset
                if record.offset not in life.aborted:
                    found[record.offset] = (record.timestamp, record.key, record.value)
        offset, last = header.next_offset, header.last_offset
    return found


def view(contents: dict[int, Content]) -> dict[bytes, tuple[int, bytes]]:
    """Return where, and with which value, each key is that was not deleted."""
    newest: dict[bytes, tuple[int, bytes | None]] = {}
    for offset, (_, key, value) in sorted(contents.items()):
        if key is not None:
            newest[key] = (offset, value)
    return {key: (offset, value) for key, (offset, value) in newest.items() if value is not None}


def check(life: Life, survivor: MemoryFileSystem, operations: int) -> None:
    """Open what survived, twice: it keeps what had been promised, and nothing else is in it."""
    promise = max((each for each in life.promises if each.operations <= operations), default=Promise(0, 0, 0))
    directory, log = opened(survivor, life.config)
    check_log(life, log, promise)
    names = survivor.list_directory(log.directory) or []
    assert not [name for name in names if name.endswith((".swap", ".cleaned", ".deleted"))]
    life.log, before = log, life.log
    if life.config.is_compacted:
        clean_once(directory, log, life.now_ms, KEYS_MAX[-1])
        check_log(life, log, promise)
    with closing(survivor), closing(survivor.after_crash()) as second:
        _, log = opened(second, life.config)
        check_log(life, log, promise)
    life.log = before


def check_log(life: Life, log: PartitionLog, promise: Promise) -> None:
    assert log.log_end_offset >= promise.end_offset
    assert log.log_start_offset >= promise.start_offset
    found = contents_of(life, log)
    expected = {
        offset: content
        for offset, content in life.written.items()
        if log.log_start_offset <= offset < log.log_end_offset
    }
    assert found.items() <= expected.items()
    if life.config.is_compacted:
        assert view(found) == view(expected)
    else:
        assert found == expected


def check_lookups_by_time(log: PartitionLog) -> None:
    """Every timestamp leads to the first record that is not older, whatever compaction left out."""
    records = [
        (record.offset, record.timestamp)
        for batch in log.read_batches(log.log_start_offset)
        for record in iterate_records(batch)
        if record.offset >= log.log_start_offset
    ]
    for timestamp in {each for _, exact in records for each in (exact - 1, exact, exact + 1)}:
        expected = next((found for found in records if found[1] >= timestamp), None)
        found = log.offset_for_timestamp(timestamp)
        assert (None if found is None else found[:2]) == expected
    newest = max((timestamp for _, timestamp in records), default=None)
    found = log.offset_for_max_timestamp()
    assert (None if found is None else found.timestamp) == newest


@contextmanager
def noted(where: str) -> Iterator[None]:
    """Say where it was when something fails: the seed and the operation make it happen again."""
    try:
        yield
    except (AssertionError, StorageError) as error:
        error.add_note(where)
        raise


@pytest.mark.parametrize("seed", range(repetitions(10, by_night=100)))
@pytest.mark.parametrize("config", [COMPACT, DELETE], ids=["compact", "delete"])
def test_compaction_keeps_required_records_after_any_crash(config: LogConfig, seed: int) -> None:
    life = Life(seed, config)
    life.run(120)
    last_sequences = {producer_id: state.last_sequence for producer_id, state in life.log.producers.items()}
    with noted(f"seed {seed}"):
        assert {each: number - 1 for each, number in life.sequences.items() if number} == {
            each: number for each, number in last_sequences.items() if number >= 0
        }
        check_log(life, life.log, life.promises[-1])
        check_lookups_by_time(life.log)
        life.directory.close()
        snapshots = [
            name for name in life.file_system.list_directory(life.log.directory) or [] if "snap" in name
        ]
        for name in snapshots:  # The log itself says what producers did, as long as all of it is there.
            life.file_system.remove(life.log.directory / name)
        _, log = opened(life.file_system, config)
        check_log(life, log, life.promises[-1])
        if config.is_compacted:
            assert {each: state.last_sequence for each, state in log.producers.items()} == last_sequences


@pytest.mark.parametrize("seed", range(repetitions(1, by_night=8)))
@pytest.mark.parametrize("config", [COMPACT, DELETE], ids=["compact", "delete"])
@pytest.mark.parametrize("dies", ["process", "machine"])
def test_a_crash_while_cleaning_changes_nothing(config: LogConfig, seed: int, dies: str) -> None:
    life = Life(seed, config)
    life.run(45)
    for operations in range(len(life.file_system.operations) + 1):
        random = Random(f"{seed} {operations}")
        choose = random.randrange if dies == "machine" else None
        with noted(f"seed {seed}, the {dies} dead behind operation {operations}"):
            check(life, life.file_system.after_crash(operations, choose), operations)
