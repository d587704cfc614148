"""Ten thousand partitions under a thousand descriptors, and the memory of a log by its size.

python benchmarks/partitions.py [--partitions N] [--descriptors N] [--folder DIR]
"""

import argparse
import gc
import os
import resource
import shutil
import tempfile
import time
import tracemalloc
from pathlib import Path
from uuid import UUID

from kohort.protocol.records import build_batch, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, PartitionLog

TOPIC_ID = UUID(int=1)
LAX = LogConfig(flush_messages=2**63 - 1)
SEGMENT_BYTES = LogConfig().segment_bytes
HUNDRED_GIGABYTES = 100 * 10**9
SEGMENTS = (1, 1_000)
INDEX_ENTRY_BYTES = 8 + 12
FILES_PER_SEGMENT = 3


def resident_bytes() -> int:
    """Return the memory that this process occupies."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def open_files() -> int:
    """Return how many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


def stage(log: PartitionLog, batch: bytes) -> None:
    log.stage(batch, (read_header(batch),), 0)


def many_partitions(folder: Path, count: int, descriptors: int) -> None:
    """Make, open and write them, under a limit of descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    directory = DataDirectory.open(folder, OsFileSystem(), segments_max=descriptors // 2 // FILES_PER_SEGMENT)
    before_bytes = resident_bytes()
    batch = build_batch([(1, b"key", b"v" * 100, ())])
    began = time.perf_counter()
    directory.create_partitions([("many", TOPIC_ID, index) for index in range(count)])
    made = time.perf_counter()
    logs = [directory.open_log("many", TOPIC_ID, index, LAX) for index in range(count)]
    opened = time.perf_counter()
    most = open_files()
    for _ in range(2):
        for log in logs:
            stage(log, batch)
            log.write(False)
        most = max(most, open_files())
    written = time.perf_counter()
    per_log = (resident_bytes() - before_bytes) / count
    print(f"{count:,} partitions under a limit of {descriptors:,} descriptors: {most} open at most")
    print(f"  made in {made - began:.1f} s, opened in {opened - made:.1f} s,", end=" ")
    print(f"written to twice in {written - opened:.1f} s; {per_log / 1024:.1f} KB of memory each")


def log_of(folder: Path, segments: int) -> tuple[float, int]:
    """Return the seconds and the memory of a clean start with a log of so many segments."""
    config = LogConfig(segment_bytes=200, flush_messages=2**63 - 1)
    directory = DataDirectory.open(folder, OsFileSystem())
    log = directory.open_log("long", TOPIC_ID, 0, config)
    batch = build_batch([(1, b"key", b"v" * 120, ())])
    for _ in range(segments):
        stage(log, batch)
    log.write(False)
    assert log.segment_count == segments
    directory.close()
    del directory, log
    gc.collect()
    again = DataDirectory.open(folder, OsFileSystem())
    began = time.perf_counter()
    opened = again.open_log("long", TOPIC_ID, 0, config)
    seconds = time.perf_counter() - began
    opened.close()
    tracemalloc.start()
    opened = again.open_log("long", TOPIC_ID, 0, config)
    size_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert opened.read(segments // 2, 1000, segments).size_bytes
    return seconds, size_bytes


def long_logs(parent: Path) -> None:
    """Print the cost of a segment, and from it the cost of 100 GB."""
    measured = []
    for segments in SEGMENTS:
        folder = Path(tempfile.mkdtemp(prefix="kohort-bench-", dir=parent))
        measured.append(log_of(folder, segments))
        shutil.rmtree(folder)
    (few_seconds, few_bytes), (many_seconds, many_bytes) = measured
    more = SEGMENTS[1] - SEGMENTS[0]
    seconds, size = (many_seconds - few_seconds) / more, max(0, many_bytes - few_bytes) / more
    count = HUNDRED_GIGABYTES // SEGMENT_BYTES + 1
    index_bytes = HUNDRED_GIGABYTES // LAX.index_interval_bytes * INDEX_ENTRY_BYTES
    print(
        f"a sealed segment costs {size / 1024:.1f} KB of memory and {1e6 * seconds:.0f} us of a clean start"
    )
    print(f"  so 100 GB, {count} segments of 1 GiB, cost {count * size / 1024:,.0f} KB", end=" ")
    print(f"and {1e3 * count * seconds:.0f} ms, whatever is in them;")
    print(f"  their indexes are {index_bytes / 1e6:,.0f} MB on the disk, and in memory while they are read")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000, help="how many (default 10,000)")
    parser.add_argument("--descriptors", type=int, default=1_024, help="the limit (default 1,024)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on which disk")
    arguments = parser.parse_args()
    long_logs(arguments.folder)
    folder = Path(tempfile.mkdtemp(prefix="kohort-bench-", dir=arguments.folder))
    try:
        many_partitions(folder, arguments.partitions, arguments.descriptors)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
