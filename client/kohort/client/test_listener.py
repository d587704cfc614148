"""What a listener hears that overrides little."""

from kohort.client import RebalanceListener, TopicPartition
from kohort.client.aio import RebalanceListener as AsyncRebalanceListener

GONE = (TopicPartition("orders", 0),)


def test_lost_partitions_are_revoked_for_a_listener_without_on_lost() -> None:
    class Released(RebalanceListener):
        def __init__(self) -> None:
            self.partitions: list[TopicPartition] = []

        def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
            self.partitions += partitions

    listener = Released()
    listener.on_lost(GONE)
    assert listener.partitions == list(GONE)


async def test_partitions_that_were_lost_are_revoked_for_an_asynchronous_listener_too() -> None:
    class Released(AsyncRebalanceListener):
        def __init__(self) -> None:
            self.partitions: list[TopicPartition] = []

        async def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
            self.partitions += partitions

    listener = Released()
    await listener.on_lost(GONE)
    assert listener.partitions == list(GONE)
