"""Members of a share group: what was accepted is not delivered again, and everything is delivered."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kohort.broker.metadata.configs import group_resource
from kohort.client import KohortError, ResourceType, TopicPartition, aio
from kohort.testing.simulation import World
from kohort.testing.simulation.simulated_broker import SimulatedBroker
from tests.simulation.whole.rules import Rules

GROUP = "sharers"
SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.record.lock.duration.ms": "15000",
}
WORK_SECONDS_MAX = 0.3

Record = tuple[TopicPartition, int]


class ShareBooks(Rules):
    """What the members of the group were given, and what the broker has said that it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.values: set[str] = set()
        """All that was delivered."""
        self.accepted: dict[Record, int] = {}
        """The delivery count with which a record was accepted, once the broker has acknowledged that."""

    def deliver(self, record: Any) -> None:
        """Note a delivery. Raises: Violation if the record was accepted before it was acquired."""
        place = (TopicPartition(record.topic, record.partition), record.offset)
        accepted = self.accepted.get(place)
        # A member may show late what it had acquired earlier: then its delivery count is lower.
        is_earlier = accepted is None or record.delivery_count <= accepted
        self.hold(
            "an accepted record is not delivered again", is_earlier, (place, accepted, record.delivery_count)
        )
        self.values.add(record.value.decode())

    def accept(
        self,
        counts: Mapping[Record, int],
        offsets: Mapping[TopicPartition, Sequence[int]],
        error: KohortError | None,
    ) -> None:
        """Note that the broker keeps these acknowledgements, unless there was an error."""
        if error is not None:
            return
        for partition, numbers in offsets.items():
            for number in numbers:
                if (partition, number) in counts:
                    self.accepted[partition, number] = counts[partition, number]


async def prepare(world: World, bootstrap: str) -> None:
    """Give the group its settings. A broker that does not know them would begin behind the first records.

    Raises: NotReached.
    """
    async with aio.Admin(bootstrap_servers=bootstrap) as admin:
        await admin.alter_configs(ResourceType.GROUP, GROUP, values=SETTINGS)
    await world.until(lambda: all(_is_known(each) for each in world.brokers))


def _is_known(broker: SimulatedBroker) -> bool:
    return broker.broker is not None and group_resource(GROUP) in broker.broker.metadata.snapshot().configs


async def share(world: World, books: ShareBooks, bootstrap: str, topic: str) -> None:
    """Be a member that accepts most records, and leaves some to others."""
    counts: dict[Record, int] = {}  # Of what was accepted in this life.
    async with aio.ShareConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        share_acknowledgement_mode="explicit",
        max_poll_records=20,
        fetch_max_wait_ms=5_000,
        on_acknowledged=partial(books.accept, counts),
    ) as consumer:
        while True:
            for record in await consumer.poll(timeout_ms=1_000):
                books.deliver(record)
                if world.random.random() < 0.1:
                    await asyncio.sleep(world.random.uniform(0, WORK_SECONDS_MAX))
                place = (TopicPartition(record.topic, record.partition), record.offset)
                counts[place] = record.delivery_count
                with suppress(KohortError):  # It has taken too long: another one has it.
                    consumer.acknowledge(record)
            if world.random.random() < 0.3:
                with suppress(KohortError):
                    await consumer.commit()
