"""A producer of the protocol before transaction.version 2, whose batch comes behind its transaction's end.

All its transactions have one epoch. So the leader of the partition has to ask the coordinator, on another
broker, whether a transaction is open. kohort's own client is newer: its requests are made by hand.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from kohort.broker.group.partition import coordinator_partition
from kohort.client import NewTopic, TopicPartition, aio
from kohort.protocol.errors import ErrorCode
from kohort.protocol.headers import CORRELATION_ID_BYTES, frame_request, response_body
from kohort.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from kohort.protocol.messages.produce import PartitionProduceData, TopicProduceData
from kohort.protocol.records import build_batch
from kohort.protocol.registry import BY_NAME
from kohort.testing.simulation import World
from kohort.testing.simulation.simulated_cluster import SimulatedCluster
from tests.messages import message_of
from tests.simulation.whole.cluster_books import ClusterBooks

TOPIC, PARTITIONS = "late-batches", 3
TRANSACTIONAL_ID = "of-the-protocol-before"
STATE_TOPIC = "__transaction_state"
SIZE_BYTES = 4
WELL_SECONDS_MAX = 60
RETRY_SECONDS = 0.1
LATER = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""What is asked again."""


async def send_late(world: World, cluster: SimulatedCluster, books: ClusterBooks) -> None:
    """Abort a transaction, and send one more batch of it. Raises: Violation, NotReached."""
    async with aio.Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topics(NewTopic(TOPIC, PARTITIONS, len(cluster.brokers)))
    await world.until(lambda: None not in map(_leader(cluster, TOPIC), range(PARTITIONS)), WELL_SECONDS_MAX)
    producer = _Producer(cluster)
    index = next(each for each in range(PARTITIONS) if producer.leader_of(each) != producer.coordinator)
    await producer.begin(index)
    assert await producer.write(index, "aborted") is ErrorCode.NONE
    await producer.abort()
    books.came_late(await producer.write(index, "late"))
    async with aio.Consumer(bootstrap_servers=cluster.bootstrap, isolation_level="read_committed") as reader:
        partition = TopicPartition(TOPIC, index)
        stable = (await reader.end_offsets(partition))[partition]
    async with aio.Consumer(bootstrap_servers=cluster.bootstrap) as reader:
        end = (await reader.end_offsets(partition))[partition]
    books.is_stable(stable, end)


def _leader(cluster: SimulatedCluster, topic: str) -> Callable[[int], int | None]:
    """Return who leads a partition of the topic, None while nobody does."""

    def leader(index: int) -> int | None:
        broker = cluster.brokers[1].broker
        known = None if broker is None else broker.metadata.snapshot().topics.get(topic)
        found = -1 if known is None else known.partitions[index].leader
        return found if found >= 0 else None

    return leader


class _Producer:
    """The producer, with one epoch."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.leader_of = _leader(cluster, TOPIC)
        self._state_leader = _leader(cluster, STATE_TOPIC)
        self._cluster = cluster
        self._id = self._epoch = -1
        self._sequence = 0

    @property
    def coordinator(self) -> int | None:
        """The broker that coordinates it."""
        partitions = int(self._cluster.brokers[1].settings["transaction.state.log.num.partitions"])
        return self._state_leader(coordinator_partition(TRANSACTIONAL_ID, partitions))

    async def begin(self, index: int) -> None:
        """Get an epoch, and add the partition to a transaction."""
        timed = {"transactional_id": TRANSACTIONAL_ID, "transaction_timeout_ms": 60_000}
        answer = await self._ask_coordinator("InitProducerId", 4, timed)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch
        added = {
            "v3_and_below_transactional_id": TRANSACTIONAL_ID,
            "v3_and_below_producer_id": self._id,
            "v3_and_below_producer_epoch": self._epoch,
            "v3_and_below_topics": (AddPartitionsToTxnTopic(name=TOPIC, partitions=(index,)),),
        }
        await self._ask_coordinator("AddPartitionsToTxn", 3, added)

    async def write(self, index: int, value: str) -> ErrorCode:
        """Write a batch of the transaction, and return what the leader says of it."""
        batch = build_batch(
            [(1, None, value.encode(), ())],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            is_transactional=True,
        )
        partition = PartitionProduceData(index=index, records=batch)
        data = (TopicProduceData(name=TOPIC, partition_data=(partition,)),)
        asked = {"transactional_id": TRANSACTIONAL_ID, "acks": -1, "timeout_ms": 5_000, "topic_data": data}
        code = _code(await self._ask(lambda: self.leader_of(index), "Produce", 11, asked))
        self._sequence += code is ErrorCode.NONE
        return code

    async def abort(self) -> None:
        """Abort the transaction; its markers are written when this returns."""
        own = {"producer_id": self._id, "producer_epoch": self._epoch, "committed": False}
        await self._ask_coordinator("EndTxn", 4, {"transactional_id": TRANSACTIONAL_ID, **own})
        asked = {"transactional_ids": (TRANSACTIONAL_ID,)}
        while True:
            answer = await self._ask_coordinator("DescribeTransactions", 0, asked)
            if answer.transaction_states[0].transaction_state == "CompleteAbort":
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _ask_coordinator(self, name: str, version: int, values: dict[str, Any]) -> Any:
        answer = await self._ask(lambda: self.coordinator, name, version, values)
        assert _code(answer) is ErrorCode.NONE, answer
        return answer

    async def _ask(
        self, node: Callable[[], int | None], name: str, version: int, values: dict[str, Any]
    ) -> Any:
        """Ask whoever leads, again where that may help, and return the answer."""
        while True:
            node_id = node()
            answer = None if node_id is None else await self._ask_one(node_id, name, version, values)
            if answer is not None and _code(answer) not in LATER:
                return answer
            await asyncio.sleep(RETRY_SECONDS)

    async def _ask_one(self, node_id: int, name: str, version: int, values: dict[str, Any]) -> Any:
        api = BY_NAME[name]
        host, _, port = self._cluster.brokers[node_id].bootstrap.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(b"".join(frame_request(message_of(api.request, **values), version, 1, "old")))
            size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big")
            frame = await reader.readexactly(size)
        finally:
            writer.close()
        assert int.from_bytes(frame[:CORRELATION_ID_BYTES], "big") == 1
        return api.response.decode(response_body(frame, api.response_header_version(version)), version)


def _code(answer: Any) -> ErrorCode:
    """Return the code of an answer that speaks of one thing."""
    if hasattr(answer, "responses"):
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)
    if hasattr(answer, "results_by_topic_v3_and_below"):
        (topic,) = answer.results_by_topic_v3_and_below
        return ErrorCode(topic.results_by_partition[0].partition_error_code)
    if hasattr(answer, "transaction_states"):
        return ErrorCode(answer.transaction_states[0].error_code)
    return ErrorCode(answer.error_code)
