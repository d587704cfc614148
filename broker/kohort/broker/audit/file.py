"""Writes lines into a file that rotates by size, in its own thread, so that a slow disk delays no request.

The queue of lines has a limit. Lines beyond it are lost and counted; a later line has the count. So a slow or
failing disk never blocks clients, and the log shows what is missing (decision 0040).
"""

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

import structlog

from kohort.storage.operating_system import O_BINARY
from kohort.storage.privacy import FILE_MODE

LINES_MAX = 10_000
BYTES_MAX = 16 * 1024 * 1024
"""The limit of the queue in bytes."""
LINES_PER_WRITE = 500
CLOSE_SECONDS_MAX = 5.0

log = structlog.get_logger("kohort.audit")


class AuditFile:
    """Takes lines in the loop's thread and writes them in its own thread."""

    def __init__(self, path: str, *, size_bytes_max: int, files_max: int) -> None:
        """Open the file and start the thread. `files_max` old files are kept; PATH.1 is the newest.

        Raises: OSError.
        """
        self._path = path
        self._size_bytes_max = size_bytes_max
        self._files_max = files_max
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lost_since = 0
        self._is_failing = False
        self._is_closed = False
        self._changed = threading.Condition()
        self.lost = 0
        """The number of lost lines since the start."""
        self._descriptor: int | None = self._open()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Queue a line, given without its line end. This never waits for the disk."""
        self._take(line, LINES_MAX, BYTES_MAX)

    def write_use(self, line: bytes) -> None:
        """Queue a line about a use. There may be thousands, so they may fill only half of the queue."""
        self._take(line, LINES_MAX // 2, BYTES_MAX // 2)

    def _take(self, line: bytes, lines_max: int, bytes_max: int) -> None:
        with self._changed:
            is_full = len(self._waiting) >= lines_max or self._waiting_bytes + len(line) > bytes_max
            if is_full or self._is_closed:
                self.lost += 1
                self._lost_since += 1
                return
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            self._changed.notify()

    def close(self) -> None:
        """Write the queue, for at most `CLOSE_SECONDS_MAX`. Blocks."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS_MAX)
        if self._thread.is_alive():
            log.error("the last lines of the audit log are lost: the disk does not answer", file=self._path)

    # -- the thread's -------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                count = min(len(self._waiting), LINES_PER_WRITE)
                lines = [self._waiting.popleft() for _ in range(count)]
                self._waiting_bytes -= sum(map(len, lines))
                lost, self._lost_since = self._lost_since, 0
                is_over = self._is_closed and not lines
            if lost:
                lines.append(b'{"event":"lost","lines":%d}' % lost)
            if lines:
                self._append(lines)
            if is_over:
                break
        if self._descriptor is not None:
            with suppress(OSError):
                os.fsync(self._descriptor)
            os.close(self._descriptor)

    def _append(self, lines: list[bytes]) -> None:
        written = 0
        try:
            for part in self._parts(lines):
                self._write(part)
                written += len(part)
        except OSError as error:
            with self._changed:
                self.lost += len(lines) - written
                self._lost_since += len(lines) - written
            if not self._is_failing:
                log.error(
                    "the audit log cannot be written, lines are lost", file=self._path, error=str(error)
                )
            self._is_failing = True

    def _parts(self, lines: list[bytes]) -> Iterator[list[bytes]]:
        """Yield the lines for each file, and rotate the file between them. Raises: OSError."""
        part: list[bytes] = []
        size_bytes = self._size_bytes()
        for line in lines:
            if size_bytes and size_bytes + len(line) + 1 > self._size_bytes_max:
                if part:
                    yield part
                self._turn_over()
                part, size_bytes = [], 0
            part.append(line)
            size_bytes += len(line) + 1
        yield part

    def _write(self, lines: list[bytes]) -> None:
        """Write the lines. Raises: OSError; then the last written line may be incomplete."""
        assert self._descriptor is not None
        begin = b"\n" if self._is_failing else b""
        data = memoryview(begin + b"\n".join(lines) + b"\n")
        while data:
            data = data[os.write(self._descriptor, data) :]
        self._is_failing = False

    def _size_bytes(self) -> int:
        if self._descriptor is None:
            self._descriptor = self._open()
        return os.fstat(self._descriptor).st_size

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | O_BINARY
        return os.open(self._path, flags, FILE_MODE)

    def _turn_over(self) -> None:
        """Rename the old files and begin a new one. Raises: OSError."""
        assert self._descriptor is not None
        os.fsync(self._descriptor)
        for number in range(self._files_max, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(
                    self._path if number == 1 else f"{self._path}.{number - 1}", f"{self._path}.{number}"
                )
        if not self._files_max:
            os.unlink(self._path)
        descriptor, self._descriptor = self._descriptor, None
        os.close(descriptor)
        self._descriptor = self._open()
