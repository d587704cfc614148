"""Where log lines go, and how they look: standard error, for a person or as JSON."""

import logging
import sys
import traceback
from typing import Literal, TextIO

import structlog

from kohort.protocol.printable import printable

LogFormat = Literal["console", "json"]
_TRACEBACK_INDENT = "    "


def configure_logs(log_format: str, level: str = "info") -> None:
    """Let structlog write to standard error, one line an event, at `level` and above."""
    renderer: structlog.typing.Processor
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer()
        exceptions: list[structlog.typing.Processor] = [structlog.processors.format_exc_info]
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=_indented_traceback
        )
        exceptions = [_quote_what_is_not_printable]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *exceptions,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


class _Quoted:
    """Text that the console shows as Python's source would, escapes and all."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _quote_what_is_not_printable(
    logger: structlog.typing.WrappedLogger, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Return the event without line breaks and escape sequences; what is no text is shown by its repr."""
    for name, value in event.items():
        if name == "event":
            event[name] = printable(str(value))
        elif isinstance(value, str) and not value.isprintable():
            event[name] = _Quoted(value)
    return event


def _indented_traceback(stream: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Write a traceback, no line of which begins where a line of the log does: messages quote clients."""
    text = "".join(traceback.format_exception(*exc_info))
    stream.writelines(f"\n{_TRACEBACK_INDENT}{printable(line)}" for line in text.splitlines())
