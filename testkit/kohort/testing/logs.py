"""Hides the broker's log lines from the user's terminal. A test's report shows the last ones.

structlog's configuration belongs to the user. The only change is one processor before the others: it drops
events from the broker's own files, and passes all others unchanged.
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
"""The last warnings and errors of this process's brokers, with their `time.monotonic`."""

_find_caller = CallsiteParameterAdder({CallsiteParameter.PATHNAME}, [__name__])


def hide_broker_logs() -> None:
    """Stop structlog from writing the broker's log lines in this process."""
    processors = structlog.get_config()["processors"]
    if drop_broker_events in processors:
        return
    if isinstance(processors, list):
        processors.insert(0, drop_broker_events)  # In place, because existing loggers hold this list.
    else:
        structlog.configure(processors=[drop_broker_events, *processors])


def drop_broker_events(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Return the event unless it is the broker's. Store warnings and errors in `lines`. Raises: DropEvent."""
    path = _find_caller(logger, method, {})[_PATHNAME]
    if not str(path).startswith(_FOLDER):
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
