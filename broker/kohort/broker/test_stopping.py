"""A whole broker that is asked to stop while clients wait: what they hear, and what it knows afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
import trio

from kohort.broker.broker import Broker, running
from kohort.broker.config import load_config
from kohort.broker.coordination.test_shard import Client
from kohort.broker.transport.addresses import Address, BrokerAddresses
from kohort.broker.transport.test_support import frame, receive
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import build_batch
from kohort.storage.memory_filesystem import MemoryFileSystem, Operation
from tests.crash.breaking_file_system import BreakingFileSystem

PRODUCE, PRODUCE_VERSION = 0, 9
PLACES = BrokerAddresses(Address("127.0.0.1", 0), Path("/data"))
BATCHES = 5
LARGE_BYTES = 200_000  # A writer thread has it.


def produce(sequence: int) -> ProduceRequest:
    batch = build_batch(
        [(1_700_000_000_000, None, bytes(LARGE_BYTES), ())],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
    )
    data = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=-1, timeout_ms=60_000, topic_data=(TopicProduceData(name="air", partition_data=(data,)),)
    )


class SlowDisk(BreakingFileSystem):
    """A disk whose next sync, once it is `slow`, takes until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.syncs = Event()
        self.released = Event()

    def note(self, operation: Operation) -> None:
        if self.is_slow and operation.kind == "sync" and self.path_of(operation).endswith(".log"):
            self.syncs.set()
            self.released.wait()
        super().note(operation)


@contextmanager
def released(disk: SlowDisk) -> Iterator[None]:
    try:
        yield
    finally:
        disk.released.set()


async def release_when_it_stops(disk: SlowDisk, broker: Broker) -> None:
    while not broker.reactor._stopping and not any(
        each.is_ending for each in broker.reactor._connections.values()
    ):
        await trio.sleep(0.001)
    disk.released.set()


async def test_batches_being_written_at_a_stop_are_answered_and_recognised_afterwards() -> None:
    disk = SlowDisk()
    with released(disk):
        async with (
            trio.open_nursery() as nursery,
            running(load_config(None, ()), PLACES, filesystem=disk) as broker,
        ):
            client = await Client.to(broker)
            topic = CreatableTopic(
                name="air", num_partitions=1, replication_factor=1, assignments=(), configs=()
            )
            await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
            disk.is_slow = True
            stream = await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port)
            for each in range(BATCHES):
                body = produce(each).encode(PRODUCE_VERSION)
                await stream.send_all(frame(each, api_key=PRODUCE, version=PRODUCE_VERSION, body=body))
            partition = broker.partitions.get("air", 0)
            assert partition is not None
            with trio.fail_after(60):
                while not disk.syncs.is_set() or partition.log.log_end_offset < BATCHES:
                    await trio.sleep(0.001)
            nursery.start_soon(release_when_it_stops, disk, broker)
        answers = await receive(stream, BATCHES)
    assert [correlation for correlation, _ in answers] == list(range(BATCHES))
    for each, (_, body) in enumerate(answers):
        found = ProduceResponse.decode(body[1:], PRODUCE_VERSION).responses[0].partition_responses[0]
        assert (found.error_code, found.base_offset) == (ErrorCode.NONE, each)


@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_batch_repeated_after_a_start_is_recognised(is_clean: bool) -> None:
    disk: MemoryFileSystem = BreakingFileSystem()
    async with running(load_config(None, ()), PLACES, filesystem=disk) as broker:
        client = await Client.to(broker)
        topic = CreatableTopic(name="air", num_partitions=1, replication_factor=1, assignments=(), configs=())
        await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
        for each in range(BATCHES + 1):
            await client.ask(produce(each), ProduceResponse, PRODUCE_VERSION)
        survivor = disk if is_clean else disk.after_crash()
    async with running(load_config(None, ()), PLACES, filesystem=survivor) as broker:
        client = await Client.to(broker)
        for each in range(1, BATCHES + 1):
            answer = await client.ask(produce(each), ProduceResponse, PRODUCE_VERSION)
            found = answer.responses[0].partition_responses[0]
            assert (found.error_code, found.base_offset) == (ErrorCode.NONE, each)
        answer = await client.ask(produce(0), ProduceResponse, PRODUCE_VERSION)
        code = answer.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
