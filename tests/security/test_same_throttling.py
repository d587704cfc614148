"""A reader and a writer beyond their quotas on kohort and on Apache Kafka 4.3.1: what they are answered.

Each question comes over a connection of its own, so that none is muted; the quota is of the client id. What
Kafka counts of an answer besides its records is little beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
import trio

from kohort.protocol.messages.fetch import FetchResponse
from kohort.protocol.messages.produce import ProduceResponse
from kohort.protocol.records import build_batch
from kohort.protocol.schema import ZERO_UUID
from tests.differential.apache_kafka import ApacheKafka, MissingTool
from tests.differential.test_same_permissions import built
from tests.differential.wire import Connection
from tests.interop.broker_process import BrokerProcess
from tests.repetitions import only_by_night

SETTINGS = ("offsets.topic.replication.factor=1", "group.initial.rebalance.delay.ms=0")
RATE = 30_000
"""Over ten seconds: three records of a tenth of a megabyte at once."""
RECORD = b"x" * 90_000
TOPIC, CLIENT = "metered", "app"
BATCH = build_batch([(1, None, RECORD, [])])
Address = tuple[str, int]


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, Address]]:
    """Both brokers."""
    theirs = ApacheKafka(tmp_path_factory.mktemp("kafka"), *SETTINGS)
    try:
        theirs.start()
    except MissingTool as missing:
        pytest.skip(str(missing))
    ours = BrokerProcess(tmp_path_factory.mktemp("kohort"), *SETTINGS)
    ours.start()
    yield ours.address, theirs.address
    ours.stop()
    theirs.stop()


async def ask(address: Address, name: str, version: int, client: str, **values: Any) -> Any:
    connection = Connection(address)
    try:
        return await connection.ask(name, version, built(name, values, ZERO_UUID), client)
    finally:
        connection.close()


async def limit(address: Address, client: str, key: str) -> None:
    """Set the quota, and return once it counts."""
    entity = [{"entity_type": "client-id", "entity_name": client}]
    ops = [{"key": key, "value": float(RATE)}]
    await ask(address, "AlterClientQuotas", 1, "control", entries=[{"entity": entity, "ops": ops}])
    found: Any = None
    while not found:
        found = (await ask(address, "DescribeClientQuotas", 1, "control", components=[])).entries
    await trio.sleep(0.5)  # Kafka's broker follows its controller.


async def made(address: Address, topic: str) -> None:
    topics = [{"name": topic, "num_partitions": 1, "replication_factor": 1}]
    await ask(address, "CreateTopics", 5, "control", topics=topics, timeout_ms=5_000)


async def written(address: Address, topic: str, client: str) -> bool:
    """Return whether a record was taken, and its client told to wait; it is always taken."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": BATCH}]}]
    answer = await ask(address, "Produce", 9, client, acks=1, timeout_ms=5_000, topic_data=data)
    assert isinstance(answer, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return answer.throttle_time_ms > 0


async def read(address: Address, topic: str, client: str, session: tuple[int, int] = (0, -1)) -> Any:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}]
    wanted = [{"topic": topic, "partitions": partitions}]
    answer = await ask(
        address, "Fetch", 11, client,
        max_wait_ms=0, min_bytes=1, max_bytes=1_000, session_id=session[0], session_epoch=session[1],
        topics=wanted if session[1] < 1 else [],
    )  # fmt: skip
    assert isinstance(answer, FetchResponse)
    parts = [len(each.records or b"") > 0 for topic in answer.responses for each in topic.partitions]
    return answer.error_code, parts, answer.throttle_time_ms > 0, answer.session_id


@only_by_night
def test_a_reader_beyond_its_quota_is_answered_the_same(addresses: tuple[Address, Address]) -> None:
    async def play(address: Address) -> list[Any]:
        topic, client = f"{TOPIC}-{uuid4().hex[:8]}", f"{CLIENT}-{uuid4().hex[:8]}"
        await made(address, topic)
        await written(address, topic, "control")
        await limit(address, client, "consumer_byte_rate")
        found = [(await read(address, topic, client))[:3] for _ in range(2)]
        *begun, session = await read(address, topic, client, (0, 0))
        assert session
        found.append(tuple(begun))
        for epoch in (1, 2):  # It has had what it may: nothing, and a session that goes on.
            *told, same = await read(address, topic, client, (session, epoch))
            assert same == session
            found.append(tuple(told))
        *anew, none = await read(address, topic, client, (0, 0))
        assert none == 0
        return [*found, tuple(anew)]

    ours, theirs = (trio.run(play, each) for each in addresses)
    assert ours == theirs
    assert theirs == [(0, [True], False)] * 3 + [(0, [], True)] * 3


@only_by_night
def test_a_writer_beyond_its_quota_is_answered_the_same(addresses: tuple[Address, Address]) -> None:
    async def play(address: Address) -> list[bool]:
        topic, client = f"{TOPIC}-{uuid4().hex[:8]}", f"{CLIENT}-{uuid4().hex[:8]}"
        await made(address, topic)
        await limit(address, client, "producer_byte_rate")
        return [await written(address, topic, client) for _ in range(6)]

    ours, theirs = (trio.run(play, each) for each in addresses)
    assert ours == theirs == [False] * 3 + [True] * 3
