"""A broker that dies again soon after its start: what the journal gave back is in no journal any more."""

from kohort.client import NewTopic, TopicPartition, aio
from kohort.testing.simulation.simulated_broker import SimulatedBroker
from tests.simulation.whole.reading import read_to_end
from tests.simulation.whole.rules import Rules

TOPIC = "written-once"
PARTITIONS = 8


async def die_twice(broker: SimulatedBroker, books: Rules) -> None:
    """Kill a broker with a new topic, and let it lose its power once it serves again.

    No power failure has happened since the topic's folders were made: nothing in them is on the disk but what
    was synced. The second start finds in the folders alone whose their records are. Raises: Violation.
    """
    acknowledged = set[tuple[int, str]]()
    async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
        await admin.create_topics(NewTopic(TOPIC, PARTITIONS, 1))
    async with aio.Producer(bootstrap_servers=broker.bootstrap, acks="all") as producer:
        for partition in range(PARTITIONS):
            value = f"once-{partition}"
            await (await producer.send(TOPIC, value.encode(), partition=partition))
            acknowledged.add((partition, value))
    for die in (broker.kill, broker.lose_power):
        die()
        broker.start()
        lost = acknowledged - await _found(broker.bootstrap)
        books.hold("what was written once survives two deaths", not lost, sorted(lost))


async def _found(bootstrap: str) -> set[tuple[int, str]]:
    """Return the partitions and values of the topic. Raises: KohortError."""
    partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    async with aio.Consumer(bootstrap_servers=bootstrap) as consumer:
        records = await read_to_end(consumer, *partitions)
    return {(record.partition, record.value.decode()) for record in records}
