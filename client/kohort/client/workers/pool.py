"""The common part of pools of threads and of tasks: their arguments and state."""

from collections.abc import Callable
from typing import Generic, TypeVar, Unpack

from kohort.client.config import ConsumerOptions, consumer_config
from kohort.client.listener import Partitions
from kohort.client.values import K_co, V_co
from kohort.client.workers.backlog import Backlog
from kohort.client.workers.errors import HandlerError
from kohort.client.workers.settings import PoolSettings, pool_options
from kohort.client.workers.windows import Order

Handler_contra = TypeVar("Handler_contra", contravariant=True)
ErrorHandler_contra = TypeVar("ErrorHandler_contra", contravariant=True)


class Pool(Generic[Handler_contra, ErrorHandler_contra, K_co, V_co]):
    """Several workers that handle the records of one consumer."""

    def __init__(
        self,
        *topics: str,
        handler: Handler_contra,
        workers: int = 4,
        order: Order = Order.KEY,
        on_error: ErrorHandler_contra | None = None,
        window_max: int = 1_000,
        drain_timeout_ms: float = 30_000,
        key_deserializer: Callable[[bytes], K_co] | None = None,
        value_deserializer: Callable[[bytes], V_co] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._settings = PoolSettings(workers, order, window_max, drain_timeout_ms)
        self._topics = topics
        self._options = pool_options(options)
        self._key_deserializer, self._value_deserializer = key_deserializer, value_deserializer
        self._commit_interval_ms = consumer_config(self._options).auto_commit_interval_ms
        self._handler = handler
        self._on_error = on_error
        self._backlog = Backlog(order, window_max)
        self._running = 0
        self._failure: HandlerError | None = None
        self._set_up()

    def _set_up(self) -> None:
        """Make what this kind of pool has in addition."""

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} of {self._settings.workers} for {', '.join(self._topics)} in group"
            f" {self._options.get('group_id')!r}, {self.waiting} record(s) waiting>"
        )

    @property
    def waiting(self) -> int:
        """How many records were polled and can't be committed yet."""
        return self._backlog.uncommitted

    @property
    def paused(self) -> bool:
        """Whether partitions are paused because too many of their records wait."""
        return self._backlog.is_holding_back

    def _unfinished(self, partitions: Partitions) -> int:
        """Return how many records to wait for; after a failure only those being handled now."""
        if self._failure is not None:
            self._backlog.drop_waiting(partitions, all_of_them=True)
        return self._backlog.unfinished(partitions)
