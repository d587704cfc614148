"""What a consumer tells the user's code about its partitions."""

from kohort.client.values import TopicPartition

Partitions = tuple[TopicPartition, ...]


class RebalanceListener:
    """Override what you need. Called within `poll`, in the thread that polls."""

    def on_assigned(self, partitions: Partitions) -> None:
        """These partitions may be read from now on; a seek made here counts."""

    def on_revoked(self, partitions: Partitions) -> None:
        """These partitions go to somebody else when this returns; a commit made here counts."""

    def on_lost(self, partitions: Partitions) -> None:
        """These partitions are gone: somebody else may have read on already, and a commit is refused.

        Without a method of its own a listener hears `on_revoked`, as in ConsumerRebalanceListener.
        """
        self.on_revoked(partitions)


class AsyncRebalanceListener:
    """The same for the asynchronous consumer."""

    async def on_assigned(self, partitions: Partitions) -> None:
        """These partitions may be read from now on; a seek made here counts."""

    async def on_revoked(self, partitions: Partitions) -> None:
        """These partitions go to somebody else when this returns; a commit made here counts."""

    async def on_lost(self, partitions: Partitions) -> None:
        """These partitions are gone: somebody else may have read on already, and a commit is refused.

        Without a method of its own a listener hears `on_revoked`, as in ConsumerRebalanceListener.
        """
        await self.on_revoked(partitions)


Listener = AsyncRebalanceListener | RebalanceListener
"""What the asynchronous consumer takes."""
