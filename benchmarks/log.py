"""Append and read a log, beside the file system itself: MB/s, and the log's share of the disk's rate.

    python benchmarks/log.py [--megabytes N] [--folder DIR]

The raw figures write and read the same bytes in the same pieces with pwrite, fdatasync and pread.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from kohort.protocol.records import build_batch, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, PartitionLog
from kohort.storage.verify import verify_data

MEGABYTE = 1_000_000
REPEATS = 3
FLUSH_BYTES = 256 * 1024
FETCH_BYTES = 1024 * 1024
RECORD_BYTES = (100, 1_000, 16_000, 100_000)
TOPIC_ID = UUID(int=1)
CONFIG = LogConfig(segment_bytes=2**30)


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kohort-bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def batches_per_flush(batch: bytes) -> int:
    return max(1, FLUSH_BYTES // len(batch))


def append(log: PartitionLog, batch: bytes, count: int, *, sync: bool) -> None:
    """Stage and write like the broker: records that arrive together are one write."""
    headers = (read_header(batch),)
    for place in range(1, count + 1):
        log.stage(batch, headers, 0)
        if place % batches_per_flush(batch) == 0:
            log.write(sync)
    log.write(sync)


def append_raw(path: Path, batch: bytes, count: int, *, sync: bool) -> None:
    together = batches_per_flush(batch)
    piece = batch * together
    file_descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    for place in range(0, count, together):
        os.pwrite(file_descriptor, piece, place * len(batch))
        if sync:
            os.fdatasync(file_descriptor)
    os.close(file_descriptor)


def read(log: PartitionLog) -> None:
    """Fetch all of it, as a consumer does."""
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, FETCH_BYTES, log.log_end_offset).read()
        size = read_header(data).size_bytes  # All batches are the same.
        offset += max(1, len(data) // size) * (read_header(data).last_offset_delta + 1)


def read_raw(path: Path) -> None:
    file_descriptor = os.open(path, os.O_RDONLY)
    position = 0
    while data := os.pread(file_descriptor, FETCH_BYTES, position):
        position += len(data)
    os.close(file_descriptor)


def best(action: Callable[[Path], float], parent: Path) -> float:
    """Return the minimum of some repetitions, each in a separate folder."""
    times = []
    for _ in range(REPEATS):
        with scratch(parent) as folder:
            times.append(action(folder))
    return min(times)


def line(what: str, size_bytes: int, ours: float, raw: float) -> None:
    megabytes = size_bytes / MEGABYTE
    print(f"{what:<34}{megabytes / ours:>9,.0f} MB/s{megabytes / raw:>10,.0f} MB/s{raw / ours:>9.2f}")


def measure_appends(batch: bytes, count: int, parent: Path) -> None:
    for sync in (False, True):

        def ours(folder: Path, sync: bool = sync) -> float:
            log = DataDirectory.open(folder, OsFileSystem()).open_log("bench", TOPIC_ID, 0, CONFIG)
            return seconds(lambda: append(log, batch, count, sync=sync))

        def raw(folder: Path, sync: bool = sync) -> float:
            return seconds(lambda: append_raw(folder / "raw", batch, count, sync=sync))

        how = f"synced every {FLUSH_BYTES // 1024} KB" if sync else "not synced"
        what = f"append {len(batch):>7,} B, {how}"
        line(what, len(batch) * count, best(ours, parent), best(raw, parent))


def measure_reads(batch: bytes, count: int, parent: Path) -> None:
    with scratch(parent) as folder:
        directory = DataDirectory.open(folder, OsFileSystem())
        log = directory.open_log("bench", TOPIC_ID, 0, CONFIG)
        append(log, batch, count, sync=False)
        path = next((folder / "bench-0").glob("*.log"))
        size = path.stat().st_size
        times = [(seconds(lambda: read_raw(path)), seconds(lambda: read(log))) for _ in range(REPEATS)]
        raw, ours = (min(each) for each in zip(*times, strict=True))
        line(f"read   {len(batch):>7,} B, fetches of 1 MB", size, ours, raw)
        directory.close()
        verified = seconds(lambda: verify_data(OsFileSystem(), folder))
        line(f"verify {len(batch):>7,} B", size, verified, raw)
        (folder / ".kafka_cleanshutdown").unlink()
        (folder / "recovery-point-offset-checkpoint").unlink()
        found = DataDirectory.open(folder, OsFileSystem())
        recovered = seconds(lambda: found.open_log("bench", TOPIC_ID, 0, CONFIG))
        line(f"recover {len(batch):>6,} B, after a crash", size, recovered, raw)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--megabytes", type=int, default=64, help="how much is written per figure (default 64)"
    )
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on which disk")
    arguments = parser.parse_args()
    print(f"{'':<34}{'kohort':>14}{'raw':>15}{'ratio':>9}")
    for size in RECORD_BYTES:
        batch = build_batch([(1, b"key", os.urandom(size), ())])
        count = max(1, min(arguments.megabytes * MEGABYTE // len(batch), 200_000))
        measure_appends(batch, count, arguments.folder)
        measure_reads(batch, count, arguments.folder)


if __name__ == "__main__":
    main()
