"""Producer ids, taken from the metadata a block at a time. Source: Kafka's RPCProducerIdManager."""

import trio

from kohort.broker.metadata import MetadataStore


class ProducerIds:
    """Gives every idempotent producer an id that no other has, or will get after a crash."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._block = iter(range(0))
        self._allocating = trio.Lock()

    async def next(self) -> int:
        """Return a producer id that was never returned before. Raises: StorageError."""
        async with self._allocating:
            producer_id = next(self._block, None)
            if producer_id is None:
                self._block = iter(await self._metadata.allocate_producer_ids())
                producer_id = next(self._block)
            return producer_id
