"""How a pool of workers is set up, threads or tasks."""

from dataclasses import dataclass

from kohort.client.config import ConsumerOptions
from kohort.client.errors import ConfigurationError
from kohort.client.workers.windows import Order

POLL_MS = 100  # So long it takes at most until a stop, a failure or a due commit is seen.
POLL_PAUSED_MS = 10  # The delay until a paused partition with space is resumed.


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The settings of a pool besides those of its consumer."""

    workers: int
    order: Order
    window_max: int
    drain_timeout_ms: float

    def __post_init__(self) -> None:
        for name in ("workers", "window_max"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}: at least 1 is needed")


def pool_options(options: ConsumerOptions) -> ConsumerOptions:
    """Return the consumer's options for a pool, which commits by itself. Raises: ConfigurationError."""
    if options.get("enable_auto_commit"):
        raise ConfigurationError(
            "enable_auto_commit has to stay off: a pool commits what its workers have done"
        )
    if options.get("group_id") is None:
        raise ConfigurationError("a pool of workers needs a group_id")
    return {**options, "enable_auto_commit": False}
