"""What aiokafka's AIOKafkaAdminClient asks, and that it takes effect."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.interop.clients import CLIENTS, Outgoing
from tests.interop.conftest import Join, MakeTopic
from tests.interop.members import wait_until_shared

AIOKAFKA = CLIENTS["aiokafka"]
TOPIC_ALREADY_EXISTS = 36

T = TypeVar("T")


def ask(bootstrap: str, question: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
    """Return what an admin client of its own answers."""

    async def run() -> T:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            return await question(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


async def has_partitions(admin: AIOKafkaAdminClient, topic: str, count: int) -> bool:
    """Return whether the broker lists so many partitions of the topic; none if it does not know it."""
    if topic not in await admin.list_topics():
        return count == 0
    return len((await admin.describe_topics([topic]))[0]["partitions"]) == count


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return when it holds: Apache Kafka's brokers learn of a change a moment after it is answered."""
    async with asyncio.timeout(15):
        while not await condition():
            await asyncio.sleep(0.05)


def test_topics_are_created_described_grown_and_deleted(bootstrap: str) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"

    async def life(admin: AIOKafkaAdminClient) -> None:
        new = NewTopic(name, 2, 1, topic_configs={"retention.ms": "3600000"})
        created = await admin.create_topics([new])
        assert [each[1] for each in created.topic_errors] == [0]
        again = await admin.create_topics([new])
        assert [each[1] for each in again.topic_errors] == [TOPIC_ALREADY_EXISTS]
        await eventually(lambda: has_partitions(admin, name, 2))
        await admin.create_partitions({name: NewPartitions(5)})
        await eventually(lambda: has_partitions(admin, name, 5))
        await admin.delete_topics([name])
        await eventually(lambda: has_partitions(admin, name, 0))

    ask(bootstrap, life)


def test_configs_are_altered_and_described(bootstrap: str, make_topic: MakeTopic) -> None:
    name = make_topic(1)[0].topic

    async def change(admin: AIOKafkaAdminClient) -> dict[str, str]:
        await admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "7200000"})]
        )
        answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        return {entry[0]: entry[1] for entry in answers[0].resources[0][4]}

    assert ask(bootstrap, change)["retention.ms"] == "7200000"


def test_the_cluster_is_described(bootstrap: str) -> None:
    cluster = ask(bootstrap, lambda admin: admin.describe_cluster())
    assert [f"{each['host']}:{each['port']}" for each in cluster["brokers"]] == [bootstrap]


def test_groups_are_found_listed_and_described(
    bootstrap: str, make_topic: MakeTopic, join: Join, group: str
) -> None:
    places = make_topic(2)
    AIOKAFKA.produce(bootstrap, places[0].topic, [Outgoing(b"x", partition=each % 2) for each in range(10)])
    member = join(AIOKAFKA, places[0].topic)
    wait_until_shared([member], places)
    member.call(lambda consumer: consumer.commit(dict.fromkeys(places, 4)))

    async def look(admin: AIOKafkaAdminClient) -> None:
        assert (group, "consumer") in await admin.list_consumer_groups()
        described = (await admin.describe_consumer_groups([group]))[0].groups[0]
        assert (described[1], described[2], described[4]) == (group, "Stable", "roundrobin")
        offsets = await admin.list_consumer_group_offsets(group)
        assert {each.partition: found.offset for each, found in offsets.items()} == {0: 4, 1: 4}

    ask(bootstrap, look)


def test_deleted_records_are_gone(bootstrap: str, make_topic: MakeTopic, join: Join) -> None:
    place = make_topic(1)[0]
    AIOKAFKA.produce(bootstrap, place.topic, [Outgoing(str(index).encode()) for index in range(5)])

    async def delete(admin: AIOKafkaAdminClient) -> dict[TopicPartition, int]:
        low: dict[TopicPartition, int] = await admin.delete_records(
            {TopicPartition(place.topic, 0): RecordsToDelete(before_offset=3)}
        )
        return low

    assert ask(bootstrap, delete) == {TopicPartition(place.topic, 0): 3}
    member = join(AIOKAFKA, place.topic)
    wait_until_shared([member], [place])
    assert member.call(lambda consumer: consumer.bounds(place)) == (3, 5)
