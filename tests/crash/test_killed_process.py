"""A process that is killed while it appends: all that it said to be flushed is there."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.records import iterate_batches, iterate_records
from kohort.storage import DataDirectory, LogConfig, OsFileSystem

WRITER = """
import sys
from pathlib import Path
from uuid import UUID
from kohort.protocol.records import build_batch, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem

directory = DataDirectory.open(Path(sys.argv[1]), OsFileSystem())
log = directory.open_log("orders", UUID(int=1), 0, LogConfig(segment_bytes=20_000))
while True:
    for _ in range(5):
        value = b"%d" % log.log_end_offset
        batch = build_batch([(1, None, value, ())])
        log.stage(batch, (read_header(batch),), 0)
    log.write(True)
    print(log.flushed_offset, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 40, 150])
def test_flushed_records_survive_a_kill(tmp_path: Path, lines: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    promised = 0
    for _ in range(lines):
        promised = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    for line in writer.stdout:
        promised = int(line) if line.endswith("\n") else promised
    writer.wait()
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    assert not directory.is_clean
    log = directory.open_log("orders", UUID(int=1), 0, LogConfig(segment_bytes=20_000))
    assert log.log_end_offset >= promised > 0
    offset = 0
    while offset < log.log_end_offset:
        for batch in iterate_batches(log.read(offset, 100_000, log.log_end_offset).read(), check_crcs=True):
            for record in iterate_records(batch):
                assert (record.offset, record.value) == (offset, b"%d" % offset)
                offset += 1
