"""Lines that clients can cause without limit: so many a second are written, the rest counted."""

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from kohort.broker.runtime.clock import Clock

LINES_PER_SECOND_MAX = 5
WINDOW_MS = 1_000


class _Kind:
    """The written and the suppressed lines of one kind in the current second."""

    __slots__ = ("begin_ms", "left_out", "write", "written")

    def __init__(self, begin_ms: int, write: Callable[..., object]) -> None:
        self.begin_ms = begin_ms
        self.write = write  # At the level of its lines; that an exception was left out is a warning.
        self.written = 0
        self.left_out = 0


class ThrottledLog:
    """A log that writes at most so many lines a second of each kind; the event's text is the kind."""

    def __init__(
        self, log: FilteringBoundLogger, clock: Clock, lines_per_second_max: int = LINES_PER_SECOND_MAX
    ) -> None:
        self._log = log
        self._clock = clock
        self._lines_per_second_max = lines_per_second_max
        self._kinds: dict[str, _Kind] = {}

    def warning(self, event: str, **fields: object) -> None:
        """Write the line, or count it; the next written one has the number of suppressed ones."""
        if self._may_write(event, fields, self._log.warning):
            self._log.warning(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        """Write the line, or count it, as `warning` does."""
        if self._may_write(event, fields, self._log.info):
            self._log.info(event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """Write the line with the traceback of the exception that is being handled, or count it."""
        if self._may_write(event, fields, self._log.warning):
            self._log.exception(event, **fields)

    def _may_write(self, event: str, fields: dict[str, object], write: Callable[..., object]) -> bool:
        """Return whether the second's limit allows it; then `fields` get the number of suppressed lines."""
        now_ms = self._clock.now_ms()
        kind = self._kinds.get(event)
        if kind is None:
            kind = self._kinds[event] = _Kind(now_ms, write)
        if now_ms - kind.begin_ms >= WINDOW_MS:
            kind.begin_ms, kind.written = now_ms, 0
        if kind.written >= self._lines_per_second_max:
            kind.left_out += 1
            return False
        kind.written += 1
        if kind.left_out:
            fields["left_out"], kind.left_out = kind.left_out, 0
        return True

    def debug(self, event: str, **fields: object) -> None:
        """Write the line: this level has no limit."""
        self._log.debug(event, **fields)

    def tell_left_out(self) -> None:
        """Write how many lines were left out of each kind that has been quiet since; call it now and then."""
        now_ms = self._clock.now_ms()
        for event, kind in list(self._kinds.items()):
            if now_ms - kind.begin_ms < WINDOW_MS:
                continue
            if kind.left_out:
                kind.write(event, left_out=kind.left_out)
            del self._kinds[event]
