"""Logs that are opened at their first use, in a whole broker: by a worker, while others are served."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.log_ends import LogEnds, LogEndsAnywhere
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.test_shard import Client, running
from kohort.broker.partitions import Partition, opening
from kohort.broker.partitions.opening import LogOpening
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kohort.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopicRequest,
    DescribeProducersResponse,
)
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import build_batch, read_header
from kohort.protocol.schema import Message
from kohort.storage import DataDirectory, PartitionLog, StorageError
from kohort.storage.data_directory import CLEAN_SHUTDOWN

PARTITIONS = 3
MORE_THAN_THREADS = 45  # trio's limit is 40.
NEWEST_BY_NAME = 12


class SlowLogs:
    """Opens logs when it may, and notes in which thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_open = threading.Event()
        self.threads: list[int] = []
        self.error: Exception | None = None
        self.slow = range(PARTITIONS)
        original = DataDirectory.open_log

        def open_log(data: DataDirectory, topic: str, topic_id: UUID, index: int, *more: Any) -> PartitionLog:
            if topic == "t" and index in self.slow:
                self.threads.append(threading.get_ident())
                assert self.may_open.wait(10)
                if self.error is not None:
                    raise self.error
            return original(data, topic, topic_id, index, *more)

        monkeypatch.setattr(DataDirectory, "open_log", open_log)

    async def begun(self) -> None:
        """Return once a thread opens one."""
        with trio.fail_after(5):
            while not self.threads:
                await trio.sleep(0.005)


def producing(value: bytes, acks: int = -1, index: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=build_batch([(1, None, value, ())]))
    topic = TopicProduceData(name="t", partition_data=(data,))
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=(topic,))


def fetching(max_wait_ms: int = 0) -> FetchRequest:
    wanted = tuple(
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000)
        for index in range(PARTITIONS)
    )
    topic = FetchTopic(topic="t", partitions=wanted)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=(topic,), forgotten_topics_data=())


async def with_topic(broker: Broker) -> Client:
    """Return a client of a broker, which has the topic now."""
    client = await Client.to(broker)
    topic = CreatableTopic(
        name="t", num_partitions=PARTITIONS, replication_factor=1, assignments=(), configs=()
    )
    await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    return client


async def restarted(folder: Path, copy_to: Path | None = None) -> None:
    """Leave a folder of a clean stop, with a topic that has a record; and a copy from before the stop."""
    async with running(folder) as broker:
        client = await with_topic(broker)
        assert (await client.ask(producing(b"first"), ProduceResponse, NEWEST_BY_NAME)).responses
        if copy_to is not None:
            shutil.copytree(folder, copy_to)


async def crashed(folder: Path) -> Path:
    """Return a folder as a crash leaves it, with a topic that has a record, which is in the journal alone."""
    running_in, left = folder / "running", folder / "left"
    await restarted(running_in, copy_to=left)
    [log] = (left / "t-0").glob("*.log")
    assert log.stat().st_size
    log.write_bytes(b"")  # Not synced by then: the journal was.
    return left


def until_cancelled(_seconds: float) -> bool:
    """Return, in a thread, when nobody waits for it any more."""
    while True:
        try:
            trio.from_thread.check_cancelled()
        except trio.Cancelled:
            return True
        time.sleep(0.005)


async def is_served(broker: Broker) -> bool:
    """Return whether another client gets an answer."""
    request = ApiVersionsRequest(client_software_name="other", client_software_version="1")
    return not (await (await Client.to(broker)).ask(request, ApiVersionsResponse)).error_code


def offsets_of(answer: ProduceResponse) -> list[tuple[int, int]]:
    return [
        (each.error_code, each.base_offset)
        for topic in answer.responses
        for each in topic.partition_responses
    ]


async def produced(client: Client, request: ProduceRequest) -> list[tuple[int, int]]:
    """Return the error code and the offset of each partition."""
    return offsets_of(await client.ask(request, ProduceResponse, NEWEST_BY_NAME))


async def produced_at_last(client: Client, request: ProduceRequest) -> list[tuple[int, int]]:
    """Ask until there is no error, and return the same."""
    with trio.fail_after(5):
        while (offsets := await produced(client, request))[0][0]:
            await trio.sleep(0.01)
    return offsets


async def all_open(broker: Broker, seconds: float = 5) -> None:
    """Return once all logs are open."""
    with trio.fail_after(seconds):
        while broker.partitions.opening.unopened:
            await trio.sleep(0.005)


ASKED: dict[str, tuple[Message, type[Message], int]] = {
    "Produce": (producing(b"x"), ProduceResponse, NEWEST_BY_NAME),
    "Fetch": (fetching(), FetchResponse, NEWEST_BY_NAME),
    "ListOffsets": (
        ListOffsetsRequest(
            replica_id=-1,
            topics=(
                ListOffsetsTopic(
                    name="t", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),)
                ),
            ),
        ),
        ListOffsetsResponse,
        6,
    ),
    "OffsetForLeaderEpoch": (
        OffsetForLeaderEpochRequest(
            topics=(
                OffsetForLeaderTopic(
                    topic="t", partitions=(OffsetForLeaderPartition(partition=0, leader_epoch=0),)
                ),
            )
        ),
        OffsetForLeaderEpochResponse,
        4,
    ),
    "DeleteRecords": (
        DeleteRecordsRequest(
            topics=(
                DeleteRecordsTopic(
                    name="t", partitions=(DeleteRecordsPartition(partition_index=0, offset=1),)
                ),
            ),
            timeout_ms=1_000,
        ),
        DeleteRecordsResponse,
        2,
    ),
    "DescribeProducers": (
        DescribeProducersRequest(
            topics=(DescribeProducersRequestTopicRequest(name="t", partition_indexes=(0,)),)
        ),
        DescribeProducersResponse,
        0,
    ),
}


@pytest.mark.parametrize("name", ASKED)
async def test_logs_are_opened_by_a_worker_while_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    request, answer, version = ASKED[name]
    await restarted(tmp_path)
    logs = SlowLogs(monkeypatch)
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        frame, _, header_bytes = client.frame(request, version)
        await client.send(frame)
        await logs.begun()
        assert await is_served(broker)
        logs.may_open.set()
        with trio.fail_after(5):
            received = await client.receive()
        assert received is not None
        answer.decode(received[header_bytes:], version)
        assert threading.get_ident() not in logs.threads


async def test_requests_of_a_connection_keep_their_order_while_logs_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await restarted(tmp_path)
    logs = SlowLogs(monkeypatch)
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        requests = [producing(b"%d" % number, index=number % 2) for number in range(6)]
        frames = [client.frame(each, NEWEST_BY_NAME) for each in requests]
        await client.send(*(each for each, _, _ in frames))
        assert await is_served(broker)
        logs.may_open.set()
        answers = []
        with trio.fail_after(5):
            for _, _, header_bytes in frames:
                received = await client.receive()
                assert received is not None
                answers += offsets_of(ProduceResponse.decode(received[header_bytes:], NEWEST_BY_NAME))
        assert answers == [(0, 1), (0, 0), (0, 2), (0, 1), (0, 3), (0, 2)]
        assert await is_served(broker)
        assert broker.partitions.peek("t", 2) in broker.partitions.opening.unopened, "nobody has asked for it"


async def test_a_produce_with_acks_0_keeps_its_order_while_logs_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await restarted(tmp_path)
    logs = SlowLogs(monkeypatch)
    logs.may_open.set()
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        unheard, heard = (
            client.frame(producing(b"a", acks=0), NEWEST_BY_NAME),
            client.frame(producing(b"b"), NEWEST_BY_NAME),
        )
        await client.send(unheard[0], heard[0])
        with trio.fail_after(5):
            received = await client.receive()
        assert received is not None
        assert offsets_of(ProduceResponse.decode(received[heard[2] :], NEWEST_BY_NAME)) == [(0, 2)]


async def test_a_fetch_waits_for_records_after_its_logs_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await restarted(tmp_path)
    logs = SlowLogs(monkeypatch)
    logs.may_open.set()
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        wanted = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1_000)
        request = FetchRequest(
            max_wait_ms=5_000,
            min_bytes=1,
            topics=(FetchTopic(topic="t", partitions=(wanted,)),),
            forgotten_topics_data=(),
        )
        frame, version, header_bytes = client.frame(request, NEWEST_BY_NAME)
        await client.send(frame)
        producer = await Client.to(broker)
        assert await produced(producer, producing(b"x")) == [(0, 1)]
        with trio.fail_after(4):
            received = await client.receive()
        assert received is not None
        [topic] = FetchResponse.decode(received[header_bytes:], version).responses
        assert topic.partitions[0].records


async def test_a_log_that_cannot_be_opened_has_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await restarted(tmp_path)
    logs = SlowLogs(monkeypatch)
    logs.may_open.set()
    logs.error = StorageError("the disk is gone")
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        assert await produced(client, producing(b"x")) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]


async def test_the_ends_of_a_log_are_looked_up_when_a_thread_has_opened_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await restarted(tmp_path)
    logs = SlowLogs(monkeypatch)
    async with running(tmp_path) as broker:
        services = CoordinatorServices(
            broker.metadata,
            broker.current,
            broker.partitions,
            broker.flusher,
            broker.timers,
            broker.clock,
            broker.workers,
            None,
        )
        partition = broker.partitions.peek("t", 0)
        assert partition is not None
        answered: list[LogEnds | None] = []
        LogEndsAnywhere(services).ask(partition.topic_id, 0, answered.append)
        assert await is_served(broker)
        assert not answered
        logs.may_open.set()
        with trio.fail_after(5):
            while not answered:
                await trio.sleep(0.005)
        assert answered == [LogEnds(0, 1)]
        assert threading.get_ident() not in logs.threads


async def test_many_who_wait_for_one_log_hold_no_thread_that_others_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await restarted(tmp_path)
    logs = SlowLogs(monkeypatch)
    logs.slow = range(1)
    async with running(tmp_path) as broker:
        waiting = [await Client.to(broker) for _ in range(MORE_THAN_THREADS)]
        for each in waiting:
            await each.send(each.frame(producing(b"x"), NEWEST_BY_NAME)[0])
        client = await Client.to(broker)
        with trio.fail_after(5):
            offsets = await produced(client, producing(b"y", index=2))
            assert await broker.workers.in_thread(int) == 0
        assert offsets == [(0, 0)]
        assert len(logs.threads) == 1
        logs.may_open.set()
        with trio.fail_after(5):
            for each in waiting:
                assert await each.receive()


async def test_a_stop_does_not_wait_for_all_logs_that_a_request_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await restarted(tmp_path)
    logs = SlowLogs(monkeypatch)
    monkeypatch.setattr(opening, "OPENING_MS", 0)
    monkeypatch.setattr(logs.may_open, "wait", until_cancelled)
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        await client.send(client.frame(fetching(), NEWEST_BY_NAME)[0])
        await logs.begun()
    assert len(logs.threads) == 1


async def test_a_start_after_a_crash_serves_before_all_logs_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = await crashed(tmp_path)
    logs = SlowLogs(monkeypatch)
    async with running(folder) as broker:
        assert await is_served(broker)
        client = await Client.to(broker)
        frame, _, header_bytes = client.frame(producing(b"second"), NEWEST_BY_NAME)
        await client.send(frame)
        assert await is_served(broker)
        assert len(broker.partitions.opening.unopened) == PARTITIONS
        logs.may_open.set()
        with trio.fail_after(5):
            received = await client.receive()
            assert received is not None
            assert offsets_of(ProduceResponse.decode(received[header_bytes:], NEWEST_BY_NAME)) == [(0, 1)]
            await all_open(broker)
        assert threading.get_ident() not in logs.threads
    assert (folder / CLEAN_SHUTDOWN).exists()


async def test_a_stop_before_all_logs_are_open_leaves_them_to_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = await crashed(tmp_path)

    async def open_none(_opening: LogOpening, _threads: int) -> None:
        await trio.sleep_forever()

    with monkeypatch.context() as patches:
        patches.setattr(LogOpening, "open_all", open_none)
        async with running(folder) as broker:
            client = await Client.to(broker)
            other = producing(b"other", index=1)  # From here on the journal has another lap.
            assert await produced(client, other) == [(0, 0)]
    assert not (folder / CLEAN_SHUTDOWN).exists()
    async with running(folder) as broker:
        client = await Client.to(broker)
        offsets = [await produced(client, producing(b"x", index=each)) for each in (0, 1)]
        assert offsets == [[(0, 1)], [(0, 1)]]


async def test_a_log_that_lost_its_end_gets_no_records_that_an_old_journal_would_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two crashes: between them the journal keeps what a log may lack that is being recovered."""
    running_in, left, left_again = tmp_path / "running", tmp_path / "left", tmp_path / "left-again"
    async with running(running_in) as broker:
        client = await with_topic(broker)
        await client.ask(producing(b"first"), ProduceResponse, NEWEST_BY_NAME)
        first = broker.partitions.peek("t", 0)
        assert first is not None
        first.log.write(sync=True)
        broker.journal.restart()
        await client.ask(producing(b"second"), ProduceResponse, NEWEST_BY_NAME)
        shutil.copytree(running_in, left)
    [log] = (left / "t-0").glob("*.log")
    log.write_bytes(b"")  # The disk has lost what it had confirmed.
    logs = SlowLogs(monkeypatch)
    logs.slow = range(2, 3)
    async with running(left) as broker:
        client = await Client.to(broker)
        large = producing(b"x" * 300_000)  # It is synced in its log.
        assert await produced_at_last(client, large) == [(0, 0)]
        shutil.copytree(left, left_again)
        logs.may_open.set()
    async with running(left_again) as broker:
        found = await broker.partitions.opened("t", 0)
        assert [read_header(each).base_offset for each in found.log.read_batches()] == [0]


async def test_a_bug_in_the_recovery_of_a_log_costs_its_partition_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = await crashed(tmp_path)
    logs = SlowLogs(monkeypatch)
    logs.slow, logs.error = range(1), ValueError("a bug")
    logs.may_open.set()
    async with running(folder) as broker:
        await all_open(broker)
        client = await Client.to(broker)
        tried = [await produced(client, producing(b"x", index=each)) for each in (0, 1)]
        assert tried == [[(ErrorCode.KAFKA_STORAGE_ERROR, -1)], [(0, 0)]]
        logs.error = None
        offsets = await produced_at_last(client, producing(b"second"))
        assert offsets == [(0, 1)], "the journal has kept its first record"


async def test_a_bug_that_leaves_a_log_unopened_is_supervised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = await crashed(tmp_path)
    original, failures = Partition.open, [1]

    def open_once_more(partition: Partition) -> None:
        if partition.topic == "t" and partition.index == 0 and failures:
            failures.pop()
            raise ValueError("a bug")
        original(partition)

    monkeypatch.setattr(Partition, "open", open_once_more)
    async with running(folder) as broker:
        await all_open(broker, seconds=10)
        assert [each.restarts for each in broker.supervisor.parts if each.name == "log recovery"] == [1]
        client = await Client.to(broker)
        assert await produced(client, producing(b"second")) == [(0, 1)]
