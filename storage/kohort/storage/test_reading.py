"""Readers while a writer writes, and readers of what compaction has left."""

import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread
from uuid import UUID

import pytest

from kohort.protocol.records import build_batch, iterate_batches, read_header
from kohort.storage import LogConfig, OsFileSystem, PartitionLog

TOPIC_ID = UUID(int=3)
BATCHES = 3000


def open_log(root: Path, config: LogConfig) -> PartitionLog:
    return PartitionLog.open(
        OsFileSystem(),
        root / "orders-0",
        topic="orders",
        topic_id=TOPIC_ID,
        index=0,
        config=config,
        clean=False,
        recovery_point=0,
    )


@pytest.fixture
def _threads_switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_threads_switch_often")
def test_the_loop_stages_and_reads_while_a_thread_writes(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=20_000, index_interval_bytes=500))
    staged = [build_batch([(1000 + place, None, b"%d" % place, ())] * 2) for place in range(BATCHES)]
    failures: list[BaseException] = []

    def write_until_all_is_written() -> None:
        try:
            while log.written_offset < 2 * BATCHES:
                log.write(False)
        except BaseException as error:
            failures.append(error)
            raise

    thread = Thread(target=write_until_all_is_written)
    thread.start()
    read = 0
    for place, batch in enumerate(staged):
        assert log.stage(batch, (read_header(batch),), 0) == place * 2
        read = read_all(log, read)
    while read < 2 * BATCHES and not failures:
        read = read_all(log, read)
    thread.join()
    assert not failures
    assert (log.segment_count > 5, log.staged_bytes) == (True, 0)
    assert log.offset_for_timestamp(1000 + BATCHES - 1) == (2 * BATCHES - 2, 1000 + BATCHES - 1, 0)


def read_all(log: PartitionLog, offset: int) -> int:
    """Read what is there from the offset on, at random places too, and return where it ends."""
    written = log.written_offset
    anywhere = offset * 7919 % (written or 1)
    for start in (anywhere, offset):
        found = [read_header(each) for each in iterate_batches(log.read(start, 2000, written).read())]
        if start < written:
            assert found[0].base_offset == start // 2 * 2
        for before, after in pairwise(found):
            assert after.base_offset == before.next_offset
    if not found:
        return offset
    assert found[-1].next_offset <= written
    return found[-1].next_offset


def test_an_offset_in_a_gap_gives_the_next_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=700, index_interval_bytes=100))
    for place in range(30):
        batch = build_batch([(1000 + place, b"k", b"v" * 20, ())])
        log.stage(batch, (read_header(batch),), 0)
    log.write(True)
    log.close()
    first, second, *_ = sorted((tmp_path / "orders-0").glob("*.log"))
    kept = [bytes(each) for each in iterate_batches(first.read_bytes())]
    first.write_bytes(kept[1] + kept[4])
    second.write_bytes(b"")
    log = open_log(tmp_path, LogConfig())
    third = log.read(5, 1000, 30).read()
    for offset, base_offset in ((0, 1), (1, 1), (2, 4), (4, 4), (5, read_header(third).base_offset)):
        assert read_header(log.read(offset, 10, 30).read()).base_offset == base_offset
    assert next(read_header(each).base_offset for each in log.read_batches(2)) == 4
    assert read_header(third).base_offset > 5


def test_a_slice_can_be_sent_after_its_log_was_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig())
    batch = build_batch([(1, b"k", b"v", ())])
    log.stage(batch, (read_header(batch),), 0)
    log.write(True)
    found = log.read(0, 1000, 1)
    log.delete()
    del log
    assert os.pread(found.file_descriptor, found.size_bytes, found.position)[61:] == batch[61:]
