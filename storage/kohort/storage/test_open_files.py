"""Files are closed for others: a process with few descriptors serves many logs, and loses nothing."""

import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.records import build_batch, iterate_batches, iterate_records, read_header
from kohort.storage import DataDirectory, LogConfig, PartitionLog, StorageError
from kohort.storage.memory_filesystem import MemoryFileSystem
from kohort.storage.open_files import OpenSegments

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200)

MANY_LOGS = """
import os, resource, sys
from pathlib import Path
from uuid import UUID
from kohort.storage import DataDirectory, LogConfig, OsFileSystem
from kohort.storage.test_open_files import append, values

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
names = [("orders", UUID(int=1), index) for index in range(120)]
directory = DataDirectory.open(Path(sys.argv[1]), OsFileSystem(), segments_max=16)
directory.create_partitions(names)
config = LogConfig(segment_bytes=400, index_interval_bytes=100)
logs = [directory.open_log(*name, config) for name in names]
held = []
for number in range(6):
    for log in logs:
        append(log, b"%d" % number * 40)
    held.append(logs[number].read(0, 100, 1))
assert sum(log.segment_count for log in logs) >= 240
for log in logs:
    assert values(log) == [b"%d" % number * 40 for number in range(6)]
for each in held:
    assert len(each.read()) > 80
print(len(directory.open_segments), len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0)
directory.close()
directory = DataDirectory.open(Path(sys.argv[1]), OsFileSystem(), segments_max=16)
assert all(len(values(directory.open_log(*name, config))) == 6 for name in names)
"""


def append(log: PartitionLog, value: bytes, *, sync: bool = True) -> None:
    batch = build_batch([(1, b"key", value, ())])
    log.stage(batch, (read_header(batch),), 0)
    log.write(sync)


def values(log: PartitionLog) -> list[bytes | None]:
    found: list[bytes | None] = []
    while data := log.read(len(found), 1_000, log.written_offset).read():
        found += [record.value for batch in iterate_batches(data) for record in iterate_records(batch)]
    return found


def opened(segments_max: int, logs: int) -> tuple[MemoryFileSystem, list[PartitionLog]]:
    file_system = MemoryFileSystem()
    directory = DataDirectory.open(Path("/data"), file_system, segments_max=segments_max)
    return file_system, [directory.open_log("orders", UUID(int=1), index, CONFIG) for index in range(logs)]


def test_a_hundred_and_twenty_logs_live_with_sixty_four_descriptors(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANY_LOGS, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    segments, descriptors = map(int, done.stdout.split())
    assert segments == 16
    assert descriptors < 64


class Noted:
    """A segment that notes that its files were closed."""

    def __init__(self, name: str, gone: list[str]) -> None:
        self.name = name
        self.was_used = True
        self._gone = gone

    def let_go(self) -> None:
        self._gone.append(self.name)


def test_the_least_recently_used_segment_is_closed_first() -> None:
    gone: list[str] = []
    a, b, c, d, e = (Noted(name, gone) for name in "abcde")
    open_segments = OpenSegments(3)
    for each in (a, b, c, d):
        open_segments.opened(each)
    assert gone == ["a"]
    b.was_used = True
    open_segments.opened(e)
    assert gone == ["a", "c"]
    open_segments.closed(b)
    assert len(open_segments) == 2


def test_unsynced_bytes_are_synced_before_their_file_is_closed() -> None:
    file_system, logs = opened(1, 2)
    append(logs[0], b"lax", sync=False)
    append(logs[1], b"other", sync=False)
    survivor = file_system.after_crash(choose=lambda _: 0)
    directory = DataDirectory.open(Path("/data"), survivor)
    assert values(directory.open_log("orders", UUID(int=1), 0, CONFIG)) == [b"lax"]
    assert values(directory.open_log("orders", UUID(int=1), 1, CONFIG)) == []


def test_a_sync_that_failed_when_the_file_was_closed_fails_the_next_write() -> None:
    file_system, logs = opened(1, 2)
    append(logs[0], b"lost", sync=False)
    file_system.syncs_until_failure = 0
    append(logs[1], b"other", sync=False)
    assert logs[1].failure is None
    with pytest.raises(StorageError, match="takes no more appends"):
        append(logs[0], b"next")
