"""A member of a share group on the wire, for tests with a whole broker and real files."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import trio

from kohort.broker.broker import Broker
from kohort.broker.broker import running as running_broker
from kohort.broker.config import load_config
from kohort.broker.coordination.test_shard import Client
from kohort.broker.transport.addresses import Address, BrokerAddresses
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.messages.share_acknowledge import (
    ShareAcknowledgeBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopic,
)
from kohort.protocol.messages.share_fetch import (
    ShareFetchAcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kohort.protocol.records import build_batch, iterate_batches, iterate_records

GROUP, TOPIC = "g", "air"
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32
SETTINGS = (
    ("offsets.topic.num.partitions", "2"),
    ("share.coordinator.state.topic.num.partitions", "2"),
    ("group.share.min.record.lock.duration.ms", "1000"),
)
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4

Told = Sequence[tuple[int, int, Sequence[int]]]
"""First and last offset, and the types."""


def running(folder: Path, *settings: tuple[str, str]) -> AbstractAsyncContextManager[Broker]:
    config = load_config(None, (*SETTINGS, *settings))
    return running_broker(config, BrokerAddresses(Address("127.0.0.1", 0), folder))


class Record(NamedTuple):
    """A record as a member was handed it."""

    offset: int
    value: str
    deliveries: int


async def prepared(broker: Broker, partitions: int = 1, **settings: str) -> Client:
    """Return a client of a broker with the topic, and with the group's settings; it begins at the start."""
    client = await Client.to(broker)
    topic = CreatableTopic(
        name=TOPIC, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    await configure(client, **{"share_auto_offset_reset": "earliest", **settings})
    await load_group(client)
    return client


async def load_group(client: Client) -> None:
    """Ask for the coordinator of the group, which loads it."""
    await client.ask(FindCoordinatorRequest(coordinator_keys=(GROUP,)), FindCoordinatorResponse)


async def configure(client: Client, **settings: str) -> None:
    await _configure(client, GROUP_RESOURCE, GROUP, **settings)


async def configure_topic(client: Client, name: str, **settings: str) -> None:
    """Change the settings of a topic, so that all listeners are called."""
    await _configure(client, TOPIC_RESOURCE, name, **(settings or {"segment_ms": "600000"}))


async def _configure(client: Client, kind: int, name: str, **settings: str) -> None:
    configs = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(
            name=key.replace("_", "."), config_operation=0, value=value
        )
        for key, value in settings.items()
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    answer = await client.ask(request, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in answer.responses] == [0], answer


async def produce(client: Client, *values: str, index: int = 0, batch: bytes | None = None) -> None:
    records = batch or build_batch([(1_700_000_000_000, None, value.encode(), ()) for value in values])
    data = PartitionProduceData(index=index, records=records)
    topic = TopicProduceData(name=TOPIC, partition_data=(data,))
    answer = await client.ask(
        ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(topic,)), ProduceResponse, 9
    )
    assert answer.responses[0].partition_responses[0].error_code == 0


class Member:
    """One member with a connection of its own, and one partition at a time."""

    def __init__(self, client: Client, name: str, topic_id: UUID) -> None:
        self.client = client
        self.member_id = name
        self.topic_id = topic_id
        self.epoch = 0
        self.session_epoch = 0

    @classmethod
    async def join(cls, broker: Broker, name: str) -> "Member":
        """Return a member that has its partitions."""
        topic_id = broker.metadata.snapshot().topics[TOPIC].topic_id
        member = cls(await Client.to(broker), name, topic_id)
        with trio.fail_after(5):
            while not await member.heartbeat():
                await trio.sleep(0.01)
        return member

    async def heartbeat(self) -> bool:
        """Return whether the member has partitions of the topic."""
        message = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=(TOPIC,),
        )
        answer = await self.client.ask(message, ShareGroupHeartbeatResponse)
        assert answer.error_code in (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), answer
        self.epoch = answer.member_epoch
        given = () if answer.assignment is None else answer.assignment.topic_partitions
        return any(each.topic_id == self.topic_id for each in given)

    async def leave(self) -> None:
        message = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=-1)
        await self.client.ask(message, ShareGroupHeartbeatResponse)

    def fetching(
        self, *told: tuple[int, int, Sequence[int]], index: int = 0, **fields: int
    ) -> ShareFetchRequest:
        batches = tuple(
            ShareFetchAcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=tuple(types)
            )
            for first, last, types in told
        )
        partition = ShareFetchPartition(partition_index=index, acknowledgement_batches=batches)
        values = {"max_wait_ms": 2_000, "min_bytes": 1, "max_records": 500, "batch_size": 500, **fields}
        return ShareFetchRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=values.pop("epoch", self.session_epoch),
            is_renew_ack=any(RENEW in types for _, _, types in told),
            topics=(ShareFetchTopic(topic_id=self.topic_id, partitions=(partition,)),),
            forgotten_topics_data=(),
            **values,
        )

    async def ask(self, *told: tuple[int, int, Sequence[int]], **fields: int) -> ShareFetchResponse:
        answer = await self.client.ask(self.fetching(*told, **fields), ShareFetchResponse)
        if not answer.error_code:
            self.session_epoch += 1
        return answer

    async def fetch(self, *told: tuple[int, int, Sequence[int]], **fields: int) -> list[Record]:
        """Return the fetched records; none has an error."""
        return records_of(await self.ask(*told, **fields))

    async def acknowledge(self, *told: tuple[int, int, Sequence[int]], epoch: int | None = None) -> ErrorCode:
        """Return the result of each partition."""
        batches = tuple(
            ShareAcknowledgeBatch(first_offset=first, last_offset=last, acknowledge_types=tuple(types))
            for first, last, types in told
        )
        partition = ShareAcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topics = (ShareAcknowledgeTopic(topic_id=self.topic_id, partitions=(partition,)),) if told else ()
        message = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            is_renew_ack=any(RENEW in types for _, _, types in told),
            topics=topics,
        )
        answer = await self.client.ask(message, ShareAcknowledgeResponse)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        self.session_epoch += 1
        return ErrorCode(answer.responses[0].partitions[0].error_code if answer.responses else 0)


async def fetched(broker: Broker, *values: str) -> tuple[Client, Member]:
    """Produce these values to a prepared broker. Return a client, and a member that has fetched them."""
    client = await prepared(broker)
    await produce(client, *values)
    member = await Member.join(broker, "one")
    await member.fetch()
    return client, member


async def described_group(client: Client) -> DescribeShareGroupOffsetsResponseGroup:
    """Return the offsets of all partitions of the group."""
    request = DescribeShareGroupOffsetsRequest(
        groups=(DescribeShareGroupOffsetsGroup(group_id=GROUP, topics=None),)
    )
    (group,) = (await client.ask(request, DescribeShareGroupOffsetsResponse)).groups
    return group


async def described(client: Client) -> tuple[int, int]:
    """Return the start and the lag of partition 0."""
    group = await described_group(client)
    assert group.error_code == 0, group
    (partition,) = group.topics[0].partitions
    return partition.start_offset, partition.lag


def _bytes(records: object) -> bytes:
    assert isinstance(records, bytes | bytearray | memoryview)
    return bytes(records)


def records_of(answer: ShareFetchResponse) -> list[Record]:
    assert answer.error_code == 0, answer
    found: list[Record] = []
    for topic in answer.responses:
        for partition in topic.partitions:
            assert (partition.error_code, partition.acknowledge_error_code) == (0, 0), partition
            values = {
                record.offset: record.value
                for batch in iterate_batches(_bytes(partition.records))
                for record in iterate_records(batch)
            }
            for each in partition.acquired_records:
                for offset in range(each.first_offset, each.last_offset + 1):
                    value = values.get(offset)
                    if value is not None:
                        found.append(Record(offset, bytes(value).decode(), each.delivery_count))
    return found
