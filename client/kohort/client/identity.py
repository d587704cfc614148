"""The producer id and epoch of an idempotent producer: asked for once, raised by the producer itself."""

from collections.abc import Callable

import anyio

from kohort.client.batch import NOBODY, ProducerIdentity
from kohort.client.cluster import PATIENCE_MS, Cluster
from kohort.client.errors import KohortError, NetworkError, check
from kohort.client.retry import Backoff
from kohort.client.sequences import EPOCH_MAX
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_TRANSACTION_TIMEOUT_MS = 2_147_483_647  # Sent by a producer without transactions. Source: KafkaProducer.


class Identifier:
    """Knows the producer's identity, or requests it."""

    def __init__(self, cluster: Cluster, *, is_idempotent: bool, on_change: Callable[[], None]) -> None:
        self._cluster = cluster
        self._is_idempotent = is_idempotent
        self._on_change = on_change
        self._is_asking = False
        self.identity = NOBODY
        self.failure: KohortError | None = None  # Why there will never be an id.
        self.last_error: KohortError | None = None  # Why there is none yet.

    def is_known(self) -> bool:
        """Whether batches may be sent; if not, an id is requested and `on_change` called with it."""
        if not self._is_idempotent or self.identity != NOBODY:
            return True
        if not self._is_asking:
            self._is_asking = True
            self._cluster.tasks.start_soon(self._ask)
        return False

    @property
    def is_transactional(self) -> bool:
        """Whether only the coordinator decides the next epoch."""
        return False

    def raise_epoch(self) -> ProducerIdentity:
        """Return the identity with its next epoch; NOBODY if a new id has to be asked for (KIP-360)."""
        if self.identity == NOBODY or self.identity.epoch >= EPOCH_MAX:
            self.identity = NOBODY
        else:
            self.identity = ProducerIdentity(self.identity.producer_id, self.identity.epoch + 1)
        return self.identity

    async def _ask(self) -> None:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS
        )
        backoff = Backoff(self._cluster.config.retry_backoff_ms, self._cluster.config.retry_backoff_max_ms)
        while self.identity == NOBODY and self.failure is None:
            try:
                answer = await self._cluster.request_any(request, InitProducerIdResponse)
                check(answer.error_code)
            except KohortError as error:
                self.last_error = error
                if not isinstance(error, NetworkError):  # Already logged.
                    what = f"no producer id is given, and nothing written: {error}"
                    self._cluster.warnings.say("producer id", what, after_ms=PATIENCE_MS)
                if not error.retriable:
                    self.failure = error
                else:
                    await anyio.sleep(backoff.next_ms() / 1000)
            else:
                self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        self._is_asking = False
        self._on_change()


class TransactionalIdentifier(Identifier):
    """Gets the producer's identity from the transactions."""

    def __init__(self, cluster: Cluster, *, on_change: Callable[[], None]) -> None:
        super().__init__(cluster, is_idempotent=True, on_change=on_change)

    @property
    def is_transactional(self) -> bool:
        """Whether only the coordinator decides the next epoch."""
        return True

    def is_known(self) -> bool:
        """Whether there was a first transaction."""
        return self.identity != NOBODY

    def raise_epoch(self) -> ProducerIdentity:
        """Return NOBODY: the broken order has failed the transaction, whose end gives the next epoch."""
        return NOBODY
