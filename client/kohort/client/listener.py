"""The consumer's callbacks about its partitions."""

from kohort.client.values import TopicPartition

Partitions = tuple[TopicPartition, ...]


class RebalanceListener:
    """Override what you need. Called within `poll`, in the thread that polls."""

    def on_assigned(self, partitions: Partitions) -> None:
        """These partitions may be read from now on; a seek here counts."""

    def on_revoked(self, partitions: Partitions) -> None:
        """These partitions are reassigned after this returns; a commit here counts."""

    def on_lost(self, partitions: Partitions) -> None:
        """These partitions are lost: another member may have read on, and a commit is refused.

        Without this method a listener gets `on_revoked`, as in ConsumerRebalanceListener.
        """
        self.on_revoked(partitions)


class AsyncRebalanceListener:
    """The same for the asynchronous consumer."""

    async def on_assigned(self, partitions: Partitions) -> None:
        """These partitions may be read from now on; a seek here counts."""

    async def on_revoked(self, partitions: Partitions) -> None:
        """These partitions are reassigned after this returns; a commit here counts."""

    async def on_lost(self, partitions: Partitions) -> None:
        """These partitions are lost: another member may have read on, and a commit is refused.

        Without this method a listener gets `on_revoked`, as in ConsumerRebalanceListener.
        """
        await self.on_revoked(partitions)


Listener = AsyncRebalanceListener | RebalanceListener
"""The listener type of the asynchronous consumer."""
