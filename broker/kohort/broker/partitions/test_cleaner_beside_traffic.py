"""A whole broker whose `__consumer_offsets` is compacted while groups commit; it stays small, and right."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import trio

from kohort.broker.broker import Broker, running
from kohort.broker.config import load_config
from kohort.broker.coordination.test_shard import GROUP, Client, committed, found
from kohort.broker.metadata import OFFSETS_TOPIC
from kohort.broker.transport.addresses import Address, BrokerAddresses
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

SEGMENT_BYTES = 1024 * 1024
SETTINGS = (
    ("offsets.topic.num.partitions", "1"),
    ("offsets.topic.segment.bytes", str(SEGMENT_BYTES)),
    ("log.cleaner.backoff.ms", "20"),
    ("log.segment.delete.delay.ms", "0"),
)
PARTITIONS = 100
COMMITS = 400


def broker_in(folder: Path) -> AbstractAsyncContextManager[Broker]:
    return running(load_config(None, SETTINGS), BrokerAddresses(Address("127.0.0.1", 0), folder))


async def commit_everywhere(client: Client, offset: int) -> None:
    places = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index in range(PARTITIONS)
    )
    topic = OffsetCommitRequestTopic(name="air", partitions=places)
    request = OffsetCommitRequest(group_id=GROUP, topics=(topic,))
    answer = await client.ask(request, OffsetCommitResponse, 9)
    assert not any(each.error_code for each in answer.topics[0].partitions)


async def test_forty_thousand_commits_to_a_hundred_keys_leave_a_small_log(tmp_path: Path) -> None:
    async with broker_in(tmp_path) as broker:
        client = await Client.to(broker)
        topic = CreatableTopic(
            name="air", num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=()
        )
        await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
        await found(client)
        for offset in range(1, COMMITS + 1):
            await commit_everywhere(client, offset)
        partition = await broker.partitions.opened(OFFSETS_TOPIC, 0)
        appended_bytes = partition.log.log_end_offset * 70  # A commit takes more.
        assert appended_bytes > 2 * SEGMENT_BYTES
        with trio.fail_after(20):
            cleaning = broker.partition_counters.cleaning
            while partition.log.size_bytes >= 1.1 * SEGMENT_BYTES or not cleaning.rounds:
                await trio.sleep(0.02)
    async with broker_in(tmp_path) as broker:
        client = await Client.to(broker)
        await found(client)
        assert await committed(client) == dict.fromkeys(range(PARTITIONS), COMMITS)
