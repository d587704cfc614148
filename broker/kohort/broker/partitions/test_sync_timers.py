"""flush.messages and flush.ms where answers do not wait for the disk, in a whole broker."""

from pathlib import Path

import trio

from kohort.broker.broker import Broker, running
from kohort.broker.config import load_config
from kohort.broker.coordination.test_shard import Client
from kohort.broker.partitions.partition import Partition
from kohort.broker.transport.addresses import Address, BrokerAddresses
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import build_batch

LAX = (("log.flush.interval.messages", "10"),)


async def produced(broker: Broker, client: Client, count: int) -> Partition:
    """Return the partition once so many records, in batches of one, have been acknowledged."""
    topic = CreatableTopic(name="air", num_partitions=1, replication_factor=1, assignments=(), configs=())
    await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    topic_id = broker.metadata.snapshot().topics["air"].topic_id
    for _ in range(count):
        data = PartitionProduceData(index=0, records=build_batch([(1, None, b"v", ())]))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=(TopicProduceData(topic_id=topic_id, partition_data=(data,)),),
        )
        answer = await client.ask(request, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0
    partition = broker.partitions.get("air", 0)
    assert partition is not None
    return partition


async def test_every_tenth_record_causes_a_sync(tmp_path: Path) -> None:
    async with running(load_config(None, LAX), BrokerAddresses(Address("127.0.0.1", 0), tmp_path)) as broker:
        partition = await produced(broker, await Client.to(broker), 29)
        assert (partition.high_watermark, partition.log.flushed_offset) == (29, 20)


async def test_a_sync_is_done_after_flush_ms(tmp_path: Path) -> None:
    config = load_config(None, (*LAX, ("log.flush.interval.ms", "50")))
    async with running(config, BrokerAddresses(Address("127.0.0.1", 0), tmp_path)) as broker:
        partition = await produced(broker, await Client.to(broker), 3)
        with trio.fail_after(5):
            while partition.log.flushed_offset != 3:
                await trio.sleep(0.01)
        assert not partition.sync_due


async def test_kafkas_default_leaves_the_sync_to_the_operating_system(tmp_path: Path) -> None:
    config = load_config(None, (("log.flush.interval.messages", str(2**63 - 1)),))
    async with running(config, BrokerAddresses(Address("127.0.0.1", 0), tmp_path)) as broker:
        partition = await produced(broker, await Client.to(broker), 20)
        assert (partition.high_watermark, partition.log.flushed_offset) == (20, 0)
