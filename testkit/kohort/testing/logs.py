"""The broker's log lines, kept from the user's terminal: a test's report shows the last of them.

structlog's configuration is the process's, and belongs to the user. All that is done to it: a processor
before the others takes out what comes from the broker's own files, and leaves everything else as it is.
"""

import time
import traceback
from collections import deque
from pathlib import Path

import structlog
from structlog.processors import CallsiteParameter, CallsiteParameterAdder
from structlog.typing import EventDict, WrappedLogger

import kohort.broker.broker

LINES_KEPT = 200
_FOLDER = str(Path(kohort.broker.broker.__file__).parent)
_PATHNAME = CallsiteParameter.PATHNAME.value

lines: deque[tuple[float, str]] = deque(maxlen=LINES_KEPT)
"""What the brokers of this process have logged last, by `time.monotonic`: warnings and errors."""

_find_caller = CallsiteParameterAdder({CallsiteParameter.PATHNAME}, [__name__])


def keep_quiet() -> None:
    """Take the broker's log lines out of what structlog writes in this process, from now on."""
    processors = structlog.get_config()["processors"]
    if take_out in processors:
        return
    if isinstance(processors, list):
        processors.insert(0, take_out)  # In place: loggers that were used before hold this very list.
    else:
        structlog.configure(processors=[take_out, *processors])


def take_out(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Return what is not the broker's. Raises: structlog.DropEvent for what is, which is kept in `lines`."""
    place = _find_caller(logger, method, {})[_PATHNAME]
    if not str(place).startswith(_FOLDER):
        return event
    if method in ("warning", "error", "critical", "exception"):
        lines.append((time.monotonic(), _line(method, event)))
    raise structlog.DropEvent


def _line(method: str, event: EventDict) -> str:
    shown = {name: value for name, value in event.items() if name not in ("event", "exc_info")}
    text = " ".join(
        [method, str(event.get("event")), *(f"{name}={value!r}" for name, value in shown.items())]
    )
    return text + "\n" + traceback.format_exc() if method == "exception" else text
