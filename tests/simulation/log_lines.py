"""The broker's log lines in a simulation: they go into the trace."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def log_lines(note: Callable[[str], None]) -> Iterator[None]:
    """Have log lines noted, and written nowhere else."""
    before = structlog.get_config()

    def take(
        _logger: object, method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.ProcessorReturnValue:
        fields = " ".join(
            f"{name}={value}" for name, value in event.items() if name not in ("event", "exc_info")
        )
        note(f"broker {method}: {event['event']} {fields}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[take],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.configure(**before)
