"""Where log lines go, and how they look: standard error, for a person or as JSON."""

import logging
import re
import sys
import traceback
from functools import partial
from typing import Any, Literal, TextIO

import structlog

from kohort.protocol.printable import printable

LogFormat = Literal["console", "json"]
_TRACEBACK_INDENT = "    "


def configure_logs(log_format: str, level: str = "info", *, worker: int | None = None) -> None:
    """Let structlog write to standard error, one line an event, at `level` and above.

    Each says which `worker` writes it, where there is more than one process.
    """
    renderer: structlog.typing.Processor
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer()
        exceptions: list[structlog.typing.Processor] = [
            structlog.processors.format_exc_info,
            _shorten_traceback,
        ]
    else:
        colors = sys.stderr.isatty()
        renderer = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=_indented_traceback)
        if not colors:
            renderer = PlainLines(renderer)
        exceptions = [_quote_unprintable]
    structlog.configure(
        processors=[
            *([] if worker is None else [partial(_add_worker, worker)]),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _shorten_values,
            *exceptions,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        # A line is one call of the system: those of several workers do not run into each other.
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


VALUE_CHARACTERS_MAX = 2_048
TRACEBACK_CHARACTERS_MAX = 16_384
"""The maximum length of a line with text of clients, or with nested errors."""


def shortened(text: str, most: int) -> str:
    """Return the text, without its middle where it is longer than that."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... {len(text) - 2 * half} characters left out ... {text[-half:]}"


def _shorten_values(
    logger: structlog.typing.WrappedLogger, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    for name, value in event.items():
        if type(value) is str:
            if len(value) > VALUE_CHARACTERS_MAX:
                event[name] = shortened(value, VALUE_CHARACTERS_MAX)
        elif (
            value is not None
            and not isinstance(value, int | float)
            and name != "exc_info"
            and len(text := _text_of(value)) > VALUE_CHARACTERS_MAX
        ):
            event[name] = shortened(text, VALUE_CHARACTERS_MAX)
    return event


def _text_of(value: object) -> str:
    """Return how the value is shown; what cannot be shown, such as a list that holds itself, has no text."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # A line about an error shall not be one more error.
        return ""


def _shorten_traceback(
    logger: structlog.typing.WrappedLogger, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    text = event.get("exception")
    if isinstance(text, str):
        event["exception"] = shortened(text, TRACEBACK_CHARACTERS_MAX)
    return event


def _add_worker(
    worker: int, logger: structlog.typing.WrappedLogger, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    event["worker"] = worker
    return event


class PlainLines:
    """Writes what structlog's renderer does without colours, in a fifth of its time.

    A group of two that forms has six lines about it, and each took as long as a request.
    """

    def __init__(self, rest: structlog.typing.Processor) -> None:
        """Let `rest`, structlog's own renderer, write lines with a traceback."""
        self._rest = rest

    def __call__(
        self, logger: structlog.typing.WrappedLogger, method: str, event: structlog.typing.EventDict
    ) -> Any:
        """Return the line of an event."""
        if not event.keys().isdisjoint(_OF_TRACEBACKS):
            return self._rest(logger, method, event)
        event_text = str(event.pop("event"))
        head = f"{event.pop('timestamp')} [{event.pop('level'):9}] {event_text:30} "
        return (head + " ".join([f"{name}={_value(event[name])}" for name in sorted(event)])).rstrip(" ")


_OF_TRACEBACKS = frozenset(("exc_info", "exception", "stack"))
_QUOTED_FOR = re.compile(r"[ \t=\r\n\"']")


def _value(value: object) -> str:
    if isinstance(value, str) and not _QUOTED_FOR.search(value):
        return value
    return repr(value)


class _Quoted:
    """Text that the console shows as Python's source would, escapes and all."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _quote_unprintable(
    logger: structlog.typing.WrappedLogger, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Return the event without line breaks and escape sequences; other values are shown by their repr."""
    for name, value in event.items():
        if isinstance(value, str):
            if not value.isprintable():
                event[name] = printable(value) if name == "event" else _Quoted(value)
        elif name == "event":
            event[name] = printable(str(value))
    return event


def _indented_traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Write a traceback, no line of which begins where a line of the log does: messages quote clients."""
    text = shortened("".join(traceback.format_exception(*exc_info)), TRACEBACK_CHARACTERS_MAX)
    stream.writelines(f"\n{_TRACEBACK_INDENT}{printable(line)}" for line in text.splitlines())
