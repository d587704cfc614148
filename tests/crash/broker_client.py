"""What a client does to a broker on a breaking disk: it produces and commits, and knows what was answered."""

from __future__ import annotations

import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.test_shard import Client
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import build_batch, iterate_batches, iterate_records

TOPIC = "air"
GROUP = "flights"
PRODUCER_ID = 7
TRIES = 3
PAUSE_S = 0.12  # A partition that failed is opened again after 0.1 s.
LARGE_BYTES = 70_000  # More than the journal takes.
LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class Workload:
    """Numbered records to one partition, and commits of growing offsets."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.acknowledged: dict[int, bytes] = {}  # By offset.
        self.committed = 0
        self.commits_tried = 0

    async def run(self, broker: Broker, rounds: int) -> None:
        """Create the topic, produce and commit; what is not answered is tried again, and then left."""
        client = await Client.to(broker)
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=())
        for _ in range(TRIES):
            created = await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
            if created.topics[0].error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
                break
            await trio.sleep(PAUSE_S)
        else:
            return
        for number in range(rounds):
            size = LARGE_BYTES if number % 4 == 3 else 20
            if not await self._produce(client, b"%d " % number + b"v" * size):
                return  # Its sequence number is open: an idempotent producer would stop here as well.
            await self._commit(client, number + 1)

    async def _produce(self, client: Client, value: bytes) -> bool:
        sequence = len(self.sent)
        self.sent.append(value)
        batch = build_batch(
            [(1_700_000_000_000, None, value, ())],
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            base_sequence=sequence,
        )
        data = PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=(TopicProduceData(name=TOPIC, partition_data=(data,)),)
        )
        for _ in range(TRIES):
            answer = await client.ask(request, ProduceResponse, 9)
            partition = answer.responses[0].partition_responses[0]
            if not partition.error_code:
                self.acknowledged[partition.base_offset] = value
                return True
            await trio.sleep(PAUSE_S)
        return False

    async def _commit(self, client: Client, offset: int) -> None:
        place = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=GROUP, topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=(place,)),)
        )
        self.commits_tried = offset
        for _ in range(2 * TRIES):
            answer = await client.ask(request, OffsetCommitResponse, 9)
            if not answer.topics[0].partitions[0].error_code:
                self.committed = offset
                return
            await trio.sleep(PAUSE_S / 4)


async def fetched(client: Client, *, until_damage: bool = False) -> list[tuple[int, bytes]]:
    """Return offset and value of every record; a partition that does not serve is asked again.

    Raises: WireError for a batch with a wrong CRC, unless that ends it.
    """
    found: list[tuple[int, bytes]] = []
    with trio.fail_after(10):
        while True:
            offset = found[-1][0] + 1 if found else 0
            wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
            request = FetchRequest(
                max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic=TOPIC, partitions=(wanted,)),),
                forgotten_topics_data=(),
            )  # fmt: skip
            answer = await client.ask(request, FetchResponse, 12)
            partition = answer.responses[0].partitions[0] if answer.responses else None
            if partition is None or partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return found
            if partition.error_code:
                await trio.sleep(PAUSE_S / 4)
                continue
            records = partition.records
            assert isinstance(records, (bytes, memoryview))
            if not records:
                return found
            try:
                for batch in iterate_batches(records, check_crcs=True):
                    found += [(each.offset, each.value or b"") for each in iterate_records(batch)]
            except WireError:
                if until_damage:
                    return found
                raise


async def fetched_anew(broker: Broker, *, until_damage: bool = False) -> list[tuple[int, bytes]]:
    """Return offset and value of every record, asked for again where the broker closed the connection."""
    with trio.fail_after(10):
        while True:
            try:
                return await fetched(await Client.to(broker), until_damage=until_damage)
            except AssertionError as error:
                if "closed the connection" not in str(error):
                    raise


async def committed_offset(client: Client) -> int:
    """Return what the group has committed, 0 for nothing."""
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=None),))
    with trio.fail_after(10):
        while True:
            [group] = (await client.ask(request, OffsetFetchResponse, 9)).groups
            if group.error_code not in LOADING:
                break
            await trio.sleep(0.005)
    offsets = [each.committed_offset for topic in group.topics for each in topic.partitions]
    return offsets[0] if offsets else 0
