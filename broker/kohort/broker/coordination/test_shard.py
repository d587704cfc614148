"""Groups in a whole broker with real files: what is acknowledged, what a failure or a restart leaves."""

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
import trio
import trio.testing

from kohort.broker.broker import Broker
from kohort.broker.broker import running as running_broker
from kohort.broker.config import load_config
from kohort.broker.coordination import coordinator_shards
from kohort.broker.coordination.group_machine import GroupMachine
from kohort.broker.coordination.group_shards import GroupShard
from kohort.broker.coordination.shard import BrokerRequester, Shard, ShardState
from kohort.broker.group import GroupCoordinator, OffsetCommit, Record, coordinator_partition
from kohort.broker.metadata import OFFSETS_TOPIC
from kohort.broker.metadata.deletions import DeletedTopics
from kohort.broker.metadata.topic_plans import NewTopic
from kohort.broker.partitions import Partition
from kohort.broker.partitions.roles import Leader
from kohort.broker.transport.addresses import Address, BrokerAddresses
from kohort.protocol.errors import ErrorCode
from kohort.protocol.headers import RequestHeader
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from kohort.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message
from kohort.storage import PartitionLog, StorageError
from kohort.storage.journal import Written

SETTINGS = (
    ("group.initial.rebalance.delay.ms", "0"),
    ("offsets.topic.num.partitions", "4"),
    ("group.share.min.record.lock.duration.ms", "1000"),
)
GROUP = "flights"
A = TypeVar("A", bound=Message)


def running(folder: Path, *more: tuple[str, str]) -> AbstractAsyncContextManager[Broker]:
    return running_broker(
        load_config(None, (*SETTINGS, *more)), BrokerAddresses(Address("127.0.0.1", 0), folder)
    )


class Client:
    """A connection that asks in the newest version and waits for the answer."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.client_id = "test"
        self._stream = stream
        self._correlation_id = 0
        self._received = b""

    @classmethod
    async def to(cls, broker: Broker) -> "Client":
        return cls(await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port))

    def frame(self, message: Message, version: int | None = None) -> tuple[bytes, int, int]:
        """Return the request, its version, and how long the header of the answer will be."""
        api = BY_NAME[type(message).__name__.removesuffix("Request")]
        version = api.versions.highest if version is None else version
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=api.api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self.client_id,
        )
        frame = header.encode(api.request_header_version(version)) + message.encode(version)
        answer_header_bytes = 4 + (1 if api.response_header_version(version) else 0)
        return len(frame).to_bytes(4, "big") + frame, version, answer_header_bytes

    async def send(self, *requests: bytes) -> None:
        """Send all requests at once, so that one round of the broker takes them."""
        await self._stream.send_all(b"".join(requests))

    async def receive(self) -> bytes | None:
        """Return the next frame, None where the broker has closed the connection."""
        while len(self._received) < 4 or len(self._received) < 4 + int.from_bytes(self._received[:4], "big"):
            more = await self._stream.receive_some()
            if not more:
                return None
            self._received += more
        end = 4 + int.from_bytes(self._received[:4], "big")
        frame, self._received = self._received[4:end], self._received[end:]
        return frame

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def ask(self, message: Message, answer: type[A], version: int | None = None) -> A:
        with trio.fail_after(5):
            request, version, header_bytes = self.frame(message, version)
            await self.send(request)
            frame = await self.receive()
        assert frame is not None, "the broker closed the connection"
        return answer.decode(frame[header_bytes:], version)


async def prepared(broker: Broker) -> Client:
    """Return a client that has found its coordinator, of a broker with the topic `air`."""
    client = await Client.to(broker)
    topic = CreatableTopic(name="air", num_partitions=3, replication_factor=1, assignments=(), configs=())
    await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    await found(client)
    return client


async def found(client: Client) -> None:
    """Wait until the group's shard is loaded."""
    await client.ask(FindCoordinatorRequest(coordinator_keys=(GROUP,)), FindCoordinatorResponse)
    with trio.fail_after(5):
        while await committed(client) is None:
            await trio.sleep(0.005)


def commit_of(offset: int, index: int = 1, member: JoinGroupResponse | None = None) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="air", partitions=(partition,))
    if member is None:
        return OffsetCommitRequest(group_id=GROUP, topics=(topic,))
    return OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        topics=(topic,),
    )


async def commit(client: Client, offset: int, index: int = 1, member: JoinGroupResponse | None = None) -> int:
    answer = await client.ask(commit_of(offset, index, member), OffsetCommitResponse, 9)
    return answer.topics[0].partitions[0].error_code


async def commit_without_topic_id(broker: Broker, offset: int) -> None:
    """Commit as versions did that wrote no topic ids."""
    answers: list[Message] = []
    shard = shard_of(broker)
    request_id = shard.ask(BrokerRequester(lambda _code: None), answers.append)
    shard.submit(OffsetCommit(request_id, commit_of(offset), 9))
    with trio.fail_after(5):
        while not answers:
            await trio.sleep(0.005)
    [answer] = answers
    assert isinstance(answer, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == 0


async def committed(client: Client) -> dict[int, int] | None:
    """Return the group's offsets by partition, None while its shard is loading."""
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=None),))
    [group] = (await client.ask(asked, OffsetFetchResponse, 9)).groups
    if group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return None
    assert not group.error_code
    return {
        each.partition_index: each.committed_offset for topic in group.topics for each in topic.partitions
    }


async def committed_again(client: Client) -> dict[int, int]:
    """Return the group's offsets once its shard is loaded again."""
    with trio.fail_after(5):
        while (offsets := await committed(client)) is None:
            await trio.sleep(0.005)
    return offsets


def shard_of(broker: Broker) -> GroupShard:
    return broker.group_shards.shard_of(GROUP)


def broken_core(broker: Broker, monkeypatch: pytest.MonkeyPatch, error: Exception) -> GroupCoordinator:
    """Return the core of the group's shard, which raises at the next command; the one after it is sound."""
    broken = shard_of(broker).core
    original = GroupCoordinator.handle

    def handle(self: GroupCoordinator, command: object, now_ms: int) -> object:
        if self is broken:
            raise error
        return original(self, command, now_ms)

    monkeypatch.setattr(GroupCoordinator, "handle", handle)
    return broken


@contextmanager
def away(broker: Broker) -> Iterator[GroupShard]:
    """Close the group's shard within the block, as if its load were in progress and slow."""
    shard = shard_of(broker)
    broker.group_shards.loading.add(shard.index)
    shard.close()
    yield shard
    broker.group_shards.loading.discard(shard.index)
    broker.group_shards.refresh()


def join_of(member_id: str) -> JoinGroupRequest:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\xff\xff\xff\xff")
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(protocol,),
    )


async def joined(client: Client) -> JoinGroupResponse:
    """Become the only member of the group, and its generation stable."""
    first = await client.ask(join_of(""), JoinGroupResponse)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    answer = await client.ask(join_of(first.member_id), JoinGroupResponse)
    assert not answer.error_code
    assignment = SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"all of it")
    sync = SyncGroupRequest(
        group_id=GROUP,
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(assignment,),
    )
    assert (await client.ask(sync, SyncGroupResponse)).assignment == b"all of it"
    return answer


@pytest.mark.requirement("R15")
async def test_an_acknowledged_commit_outlives_a_crash(tmp_path: Path) -> None:
    async with running(tmp_path / "life") as broker:
        client = await prepared(broker)
        for offset in range(20):
            assert await commit(client, offset) == 0
        shutil.copytree(tmp_path / "life", tmp_path / "after")  # What a kill -9 would leave.
    async with running(tmp_path / "after") as broker:
        client = await Client.to(broker)
        await found(client)
        assert await committed(client) == {1: 19}


@pytest.mark.requirement("R15")
async def test_an_acknowledged_commit_survives_a_power_failure_that_loses_unsynced_data(
    tmp_path: Path,
) -> None:
    async with running(tmp_path / "life") as broker:
        client = await prepared(broker)
        folder = f"{OFFSETS_TOPIC}-{coordinator_partition(GROUP, 4)}"
        assert await commit(client, 6) == 0  # The first in a log is synced there.
        [written] = (tmp_path / "life" / folder).glob("*.log")
        synced_bytes = written.stat().st_size
        assert await commit(client, 7) == 0
        shutil.copytree(tmp_path / "life", tmp_path / "after")
    log = tmp_path / "after" / folder / written.name
    assert log.stat().st_size > synced_bytes
    os.truncate(log, synced_bytes)  # Written, but synced only by the journal.
    async with running(tmp_path / "after") as broker:
        client = await Client.to(broker)
        await found(client)
        assert await committed(client) == {1: 7}


@pytest.mark.requirement("R20")
async def test_members_go_on_with_their_generation_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        member = await joined(client)
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        await found(client)
        beat = HeartbeatRequest(
            group_id=GROUP, generation_id=member.generation_id, member_id=member.member_id
        )
        assert (await client.ask(beat, HeartbeatResponse)).error_code == 0
        [group] = (await client.ask(DescribeGroupsRequest(groups=(GROUP,)), DescribeGroupsResponse)).groups
        assert group.group_state == "Stable"
        assert [each.member_assignment for each in group.members] == [b"all of it"]


async def test_a_failed_flush_is_never_acknowledged_and_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 1) == 0

        def fail(log: PartitionLog, staged: object, *, sync: bool) -> None:
            raise StorageError("the disk is gone")

        with monkeypatch.context() as patch:
            patch.setattr(PartitionLog, "write_staged", fail)
            assert await commit(client, 2) == ErrorCode.NOT_COORDINATOR
        assert (await committed_again(client)).keys() == {1}
        assert await commit(client, 3) == 0
        assert await committed(client) == {1: 3}


@pytest.mark.interpreted
async def test_a_heartbeat_does_not_overtake_the_commit_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        member = await joined(client)
        append = broker.journal.append

        def watched(entries: list[Written]) -> None:
            order.append("flush")
            append(entries)

        perform = Shard._perform

        def performed(shard: GroupShard, effects: tuple[object, ...]) -> None:
            order.extend(type(getattr(effect, "message", effect)).__name__ for effect in effects)
            perform(shard, effects)  # type: ignore[arg-type]  # the effects, unchanged

        monkeypatch.setattr(broker.journal, "append", watched)
        monkeypatch.setattr(Shard, "_perform", performed)
        beat = HeartbeatRequest(
            group_id=GROUP, generation_id=member.generation_id, member_id=member.member_id
        )
        own = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            topics=commit_of(5).topics,
        )
        await client.send(client.frame(own, 9)[0], client.frame(beat)[0])
        with trio.fail_after(5):
            assert await client.receive() is not None
            assert await client.receive() is not None
        assert order.index("flush") < order.index("OffsetCommitResponse") < order.index("HeartbeatResponse")


@pytest.mark.parametrize(
    "error", [AssertionError("a bug"), KeyError("half of a change is made")], ids=["assert", "any other"]
)
async def test_an_exception_in_the_core_reloads_that_shard_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 4) == 0
        broken = broken_core(broker, monkeypatch, error)
        await client.send(client.frame(commit_of(5), 9)[0])
        with trio.fail_after(5):
            assert await client.receive() is None
        assert await committed_again(await Client.to(broker)) == {1: 4}
        assert shard_of(broker).core is not broken


async def test_requests_are_served_directly_after_find_coordinator(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        await client.ask(FindCoordinatorRequest(coordinator_keys=(GROUP,)), FindCoordinatorResponse)
        assert await committed(client) == {}
    async with running(tmp_path) as broker:  # The topic exists, and its shards are loading.
        client = await Client.to(broker)
        await client.ask(FindCoordinatorRequest(coordinator_keys=(GROUP,)), FindCoordinatorResponse)
        assert await committed(client) == {}


@pytest.mark.requirement("R20")
async def test_a_loading_shard_answers_coordinator_load_in_progress(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        with away(broker) as shard:
            assert shard.state is ShardState.CLOSED
            assert await commit(client, 1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
            assert (await client.ask(beat, HeartbeatResponse)).error_code == ErrorCode.NONE
            old = OffsetFetchRequest(
                group_id=GROUP, topics=(OffsetFetchRequestTopic(name="air", partition_indexes=(1, 2)),)
            )
            answer = await client.ask(old, OffsetFetchResponse, 3)
            assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            codes = [each.error_code for each in answer.topics[0].partitions]
            assert codes == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2, "where aiokafka looks"
            everything = ListGroupsRequest(states_filter=(), types_filter=())
            listed = await client.ask(everything, ListGroupsResponse)
            assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await found(client)
        assert await commit(client, 1) == 0


async def test_a_commit_with_too_few_replicas_in_sync_is_refused_and_never_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 1) == 0
        partition = shard_of(broker)._partition
        assert partition is not None
        before = partition.log.log_end_offset
        with monkeypatch.context() as patch:
            lead_others(patch, partition, SimpleNamespace(has_enough_replicas=False))
            assert await commit(client, 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert partition.log.log_end_offset == before
        assert await committed(client) == {1: 1}
        assert await commit(client, 3) == 0


def lead_others(patch: pytest.MonkeyPatch, partition: Partition, leadership: object) -> None:
    """Have the partition lead several replicas, of which `leadership` knows."""
    patch.setattr(partition, "role", Leader(cast(Any, leadership)))
    patch.setattr(partition, "leadership", leadership)


class Replicas:
    """Stands for a leadership whose in-sync replicas are enough, and have nothing until they are let."""

    has_enough_replicas = True
    high_watermark = 0

    @classmethod
    def have_all(cls, partition: Partition, patch: pytest.MonkeyPatch) -> None:
        """Let them have all that the leader has."""
        patch.setattr(cls, "high_watermark", partition.log.log_end_offset)
        partition.high_watermark = 0
        partition.moved()


async def test_a_commit_that_is_not_replicated_in_time_is_refused_and_can_still_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (*SETTINGS, ("offsets.commit.timeout.ms", "100"))
    places = BrokerAddresses(Address("127.0.0.1", 0), tmp_path)
    async with running_broker(load_config(None, settings), places) as broker:
        client, other = await prepared(broker), await Client.to(broker)
        answer = await joined(client)
        partition = shard_of(broker)._partition
        assert partition is not None
        with monkeypatch.context() as patch:
            lead_others(patch, partition, Replicas())
            assert await commit(client, 1, member=answer) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            heartbeat = HeartbeatRequest(
                group_id=GROUP, generation_id=answer.generation_id, member_id=answer.member_id
            )
            for _ in range(2):  # What stands behind it waits as long, and no longer.
                refused = await other.ask(heartbeat, HeartbeatResponse)
                assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            Replicas.have_all(partition, patch)
            assert (await other.ask(heartbeat, HeartbeatResponse)).error_code == 0
            assert await committed(client) == {1: 1}  # It was refused, and is on every replica all the same.
            assert not shard_of(broker)._flushing
        assert await commit(client, 2, member=answer) == 0
        assert await committed(client) == {1: 2}


async def test_a_follower_whose_leaders_assignment_is_not_replicated_is_answered_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (*SETTINGS, ("offsets.commit.timeout.ms", "100"))
    places = BrokerAddresses(Address("127.0.0.1", 0), tmp_path)
    async with running_broker(load_config(None, settings), places) as broker:
        leader, follower = await prepared(broker), await Client.to(broker)
        first = await joined(leader)
        answers: list[JoinGroupResponse] = []
        async with trio.open_nursery() as nursery:

            async def rejoin() -> None:
                while True:  # As told by heartbeats.
                    answers.append(await leader.ask(join_of(first.member_id), JoinGroupResponse))
                    if len(answers[-1].members) == 2:
                        return

            given = (await follower.ask(join_of(""), JoinGroupResponse)).member_id
            nursery.start_soon(rejoin)
            second = await follower.ask(join_of(given), JoinGroupResponse)
        partition = shard_of(broker)._partition
        assert partition is not None
        with monkeypatch.context() as patch:
            lead_others(patch, partition, Replicas())
            synced: list[int] = []

            async def sync(client: Client, member_id: str, *assignments: str) -> None:
                answer = await client.ask(
                    SyncGroupRequest(
                        group_id=GROUP,
                        generation_id=second.generation_id,
                        member_id=member_id,
                        protocol_type="consumer",
                        protocol_name="range",
                        assignments=tuple(
                            SyncGroupRequestAssignment(member_id=each, assignment=b"some")
                            for each in assignments
                        ),
                    ),
                    SyncGroupResponse,
                )
                synced.append(answer.error_code)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(sync, follower, given)
                nursery.start_soon(sync, leader, first.member_id, first.member_id, given)
            assert synced == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
            Replicas.have_all(partition, patch)
        assert not shard_of(broker)._waiting


async def test_an_unknown_partition_fails_only_itself(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        partitions = tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=9, committed_metadata="")
            for index in (7, 2, -1)
        )
        topics = (
            OffsetCommitRequestTopic(name="air", partitions=partitions),
            OffsetCommitRequestTopic(name="rail", partitions=partitions[1:2]),
        )
        answer = await client.ask(OffsetCommitRequest(group_id=GROUP, topics=topics), OffsetCommitResponse, 9)
        codes = [
            (topic.name, each.partition_index, each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        ]
        assert codes == [("air", 7, 3), ("air", 2, 0), ("air", -1, 3), ("rail", 2, 3)]
        assert await committed(client) == {2: 9}


@pytest.mark.interpreted
async def test_a_record_that_cannot_be_written_is_not_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 4) == 0
        core = shard_of(broker).core
        replayed: list[object] = []

        def encode(record: Record) -> tuple[bytes, bytes | None]:
            raise ValueError("a value that does not fit in")

        with monkeypatch.context() as patch:
            patch.setattr(GroupMachine, "encode", staticmethod(encode))
            patch.setattr(core, "replay", replayed.append)
            await client.send(client.frame(commit_of(5), 9)[0])
            with trio.fail_after(5):
                assert await client.receive() is None
        assert replayed == []
        assert await committed_again(await Client.to(broker)) == {1: 4}


async def test_a_record_that_fails_in_the_core_does_not_prevent_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 4, 1) == 0
        assert await commit(client, 7, 2) == 0
    replay = GroupCoordinator.replay

    def tripping(self: GroupCoordinator, record: Record) -> None:
        assert getattr(record.key, "partition", None) != 1, "what this record says is impossible"
        replay(self, record)

    monkeypatch.setattr(GroupCoordinator, "replay", tripping)
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        await found(client)
        assert await committed(client) == {2: 7}


async def test_a_load_that_fails_at_its_end_leaves_no_serving_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_shards, "RELOAD_DELAYS_SECONDS", (3_600.0,) * 4)
    failed = trio.Event()

    def fail(_shard: GroupShard, _seconds: float) -> None:
        failed.set()
        raise AssertionError("a bug")

    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 4) == 0
        shard = shard_of(broker)
        monkeypatch.setattr(shard, "_on_loaded", fail)
        shard.close()
        broker.group_shards.refresh()
        with trio.fail_after(5):
            await failed.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert shard.state is ShardState.CLOSED
        assert await commit(client, 5) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.interpreted
async def test_a_load_that_has_failed_often_is_tried_again_without_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_shards, "RELOAD_DELAYS_SECONDS", ())
    monkeypatch.setattr(coordinator_shards, "RELOAD_AGAIN_MS", 10)
    failures = [StorageError("the disk")] * 3
    load = Shard.load

    async with running(tmp_path) as broker:
        await prepared(broker)
        shard = shard_of(broker)

        async def load_at_last(each: GroupShard) -> None:
            if each is shard and failures:
                raise failures.pop()
            await load(each)

        monkeypatch.setattr(Shard, "load", load_at_last)
        shard.close()
        broker.group_shards.refresh()
        with trio.fail_after(5):
            while shard.state is not ShardState.ACTIVE:
                await trio.sleep(0.005)
        assert not failures


async def test_a_topic_recreated_while_a_shard_was_away_has_no_offsets_of_the_old_one(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 4) == 0
        with away(broker):
            before = broker.metadata.snapshot().topics["air"].topic_id
            await broker.topics.delete(["air"])
            await broker.topics.create([NewTopic("air", 3)])
            assert broker.metadata.snapshot().topics["air"].topic_id != before
        await found(client)
        assert await committed(client) == {}


async def test_the_next_coordinator_drops_offsets_of_a_recreated_topic(
    tmp_path: Path,
) -> None:
    """It has heard of no deletion: the topic is there, under another id."""
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 4) == 0
        with away(broker):
            await broker.topics.delete(["air"])
            await broker.topics.create([NewTopic("air", 3)])
            broker.group_shards.deleted_topics = DeletedTopics()
        await found(client)
        assert await committed(client) == {}
        assert shard_of(broker).core.groups[GROUP].offsets["air"], "the metadata may be older than it"
        assert await commit(client, 1) == 0
        with away(broker):
            pass
        await found(client)
        assert await committed(client) == {1: 1}


async def test_a_deletion_before_the_shard_arrived_removes_its_offsets(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 4) == 0
        with away(broker):
            await broker.topics.delete(["air"])
        await found(client)
        await committed(client)
        assert not shard_of(broker).core.groups[GROUP].offsets


@pytest.mark.parametrize("created_again", [False, True])
async def test_offsets_without_a_topic_id_go_with_a_topic_deleted_during_a_load(
    tmp_path: Path, created_again: bool
) -> None:
    """Earlier versions wrote such offsets."""
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await commit_without_topic_id(broker, 4)
        with away(broker):
            await broker.topics.delete(["air"])
            if created_again:
                await broker.topics.create([NewTopic("air", 3)])
        await found(client)
        assert await committed(client) == {}
        assert not shard_of(broker).core.groups[GROUP].offsets


async def test_a_deletion_during_a_load_applies_only_to_that_load(tmp_path: Path) -> None:
    """A later load finds offsets of the topic's successor."""
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        with away(broker):
            await broker.topics.delete(["air"])
        await found(client)
        await broker.topics.create([NewTopic("air", 3)])
        await commit_without_topic_id(broker, 4)
        with away(broker):
            pass
        await found(client)
        assert await committed(client) == {1: 4}


async def test_a_returning_shard_keeps_offsets_despite_a_deletion_before_it_left(
    tmp_path: Path,
) -> None:
    """Its offsets may be of the topic's successor: another broker has coordinated the group meanwhile."""
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await commit_without_topic_id(broker, 4)
        shards = broker.group_shards
        with away(broker) as shard:
            await broker.topics.delete(["air"])
            await broker.topics.create([NewTopic("air", 3)])
            del shards._shards[shard.index]
        await found(client)
        assert await committed(client) == {1: 4}


async def test_an_abandoned_load_leaves_deletions_to_the_next_shard(tmp_path: Path) -> None:
    """The partition had another leader during the load, and came back."""
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await commit_without_topic_id(broker, 4)
        shards = broker.group_shards
        with away(broker) as abandoned:
            del shards._shards[abandoned.index]
            shards._made(abandoned.index)
            await broker.topics.delete(["air"])
            await abandoned.load()
            abandoned.close()
        await found(client)
        assert await committed(client) == {}
        assert not shard_of(broker).core.groups[GROUP].offsets


async def test_offsets_of_a_topic_that_exists_again_in_metadata_stay(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 4) == 0
        with away(broker):
            broker.group_shards.deleted_topics.add([broker.metadata.snapshot().topics["air"]])
        await found(client)
        assert await committed(client) == {1: 4}


async def test_an_invalid_request_is_refused_while_the_shard_loads(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        join = JoinGroupRequest(
            group_id="", session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=()
        )
        assert (await client.ask(join, JoinGroupResponse)).error_code == ErrorCode.INVALID_GROUP_ID
        short = JoinGroupRequest(
            group_id=GROUP, session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=()
        )
        assert (await client.ask(short, JoinGroupResponse)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        beat = HeartbeatRequest(group_id="", generation_id=1, member_id="m")
        assert (await client.ask(beat, HeartbeatResponse)).error_code == ErrorCode.INVALID_GROUP_ID
