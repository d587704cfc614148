"""One line on a terminal that says how far something is, and that goes when it is over."""

import os
import shutil
import stat
import time
from collections.abc import Callable
from types import TracebackType
from typing import BinaryIO, Self, TextIO

SHOW_EVERY_SECONDS = 0.1
LOG_EVERY_SECONDS = 10.0
LINES_PER_UPDATE = 1_000
BAR_WIDTH = 30
BAR_FULL, BAR_EMPTY = "#", "-"
CLEAR_LINE = "\r\x1b[2K"
UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


class StatusLine:
    """A line that is written over ten times a second at most; not for what is no terminal."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._next_at_s = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.write(CLEAR_LINE)
        self._out.flush()

    def show(self, text: str) -> None:
        """Show this, cut to the terminal's width, unless something was shown just now."""
        now_s = self._clock()
        if now_s < self._next_at_s:
            return
        self._next_at_s = now_s + SHOW_EVERY_SECONDS
        self._out.write(CLEAR_LINE + text[: shutil.get_terminal_size().columns - 1])
        self._out.flush()


class LoggedLines(StatusLine):
    """Lines for what is no terminal: what has changed, every ten seconds at most, the first after as long."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(out, clock)
        self._next_at_s = clock() + LOG_EVERY_SECONDS
        self._last = ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave what was written."""

    def show(self, text: str) -> None:
        """Write this, unless something was written just now, or it says nothing new."""
        now_s = self._clock()
        if now_s < self._next_at_s or text == self._last:
            return
        self._next_at_s, self._last = now_s + LOG_EVERY_SECONDS, text
        self._out.write(f"{text}\n")
        self._out.flush()


class ByteProgress(StatusLine):
    """Says how many bytes are done, of how many if that is known, how fast, and what time is left."""

    def __init__(
        self, out: TextIO, total_bytes: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(out, clock)
        self._total_bytes = total_bytes
        self._done_bytes = 0
        self._began_at_s = clock()

    def advance(self, size_bytes: int) -> None:
        """Count so many bytes more."""
        self._done_bytes += size_bytes
        self.show(self.text())

    def text(self) -> str:
        """Return the line as it is now."""
        done, total = self._done_bytes, self._total_bytes
        speed = done / max(self._clock() - self._began_at_s, 1e-9)
        if not total:
            return f"{size_text(done)}  {size_text(speed)}/s"
        filled = min(BAR_WIDTH, BAR_WIDTH * done // total)
        bar = BAR_FULL * filled + BAR_EMPTY * (BAR_WIDTH - filled)
        left = duration_text(max(0, total - done) / speed) if speed else "-:--"
        return f"{bar} {size_text(done)} of {size_text(total)}  {size_text(speed)}/s  {left} left"


class LineProgress(ByteProgress):
    """Says how many lines were read, and for a file how much is left."""

    def __init__(self, source: BinaryIO, out: TextIO) -> None:
        status = os.fstat(source.fileno())
        super().__init__(out, status.st_size if stat.S_ISREG(status.st_mode) else None)
        self._lines = self._unshown_bytes = 0

    def advance(self, size_bytes: int) -> None:
        """Count one more line, of so many bytes."""
        self._lines += 1
        self._unshown_bytes += size_bytes
        if self._lines % LINES_PER_UPDATE == 0:
            super().advance(self._unshown_bytes)
            self._unshown_bytes = 0

    def text(self) -> str:
        """Return the line as it is now."""
        return f"{self._lines:,} lines  {super().text()}"


def size_text(size_bytes: float) -> str:
    """Return a number of bytes with three digits or more and its unit."""
    for unit_bytes, name in UNITS:
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:.1f} {name}"
    return f"{size_bytes:.0f} bytes"


def duration_text(seconds: float) -> str:
    """Return a time as M:SS, or as H:MM:SS."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
