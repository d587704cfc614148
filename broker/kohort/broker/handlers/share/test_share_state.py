"""The state of share groups on the wire: described, altered, deleted, and loaded again.

Whole brokers with real files.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.shard import ShardState
from kohort.broker.coordination.test_shard import Client
from kohort.broker.group.decision import Decision
from kohort.broker.handlers.share.test_support import (
    ACCEPT,
    GROUP,
    TOPIC,
    Member,
    Record,
    configure_topic,
    described,
    described_group,
    fetched,
    load_group,
    prepared,
    produce,
    running,
)
from kohort.broker.metadata import SHARE_STATE_TOPIC
from kohort.broker.share_state.commands import InitializeState, WriteState
from kohort.broker.share_state.coordinator import ShareStateCoordinator
from kohort.broker.share_state.state import ShareKey, next_life
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsPartition,
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsTopic,
)
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsTopic,
)
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kohort.protocol.messages.read_share_group_state import (
    ReadShareGroupStatePartition,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateTopic,
)
from kohort.protocol.schema import Message


def altering(start_offset: int) -> AlterShareGroupOffsetsRequest:
    """Return a request for the start of partition 0."""
    start = AlterShareGroupOffsetsPartition(partition_index=0, start_offset=start_offset)
    topic = AlterShareGroupOffsetsTopic(topic_name=TOPIC, partitions=(start,))
    return AlterShareGroupOffsetsRequest(group_id=GROUP, topics=(topic,))


async def code_of(client: Client, what: str) -> int:
    """Return the error of a request that changes the group."""
    if what == "delete group":
        request = DeleteGroupsRequest(groups_names=(GROUP,))
        return (await client.ask(request, DeleteGroupsResponse)).results[0].error_code
    if what == "delete offsets":
        topics = (DeleteShareGroupOffsetsTopic(topic_name=TOPIC),)
        delete = DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics)
        return (await client.ask(delete, DeleteShareGroupOffsetsResponse)).error_code
    return (await client.ask(altering(1), AlterShareGroupOffsetsResponse)).error_code


async def left_group(broker: Broker) -> Client:
    """Return a client of a broker with a group that has the state of a partition and no member."""
    client, member = await fetched(broker, "a", "b")
    await member.leave()
    return client


def states(broker: Broker) -> list[object]:
    return [key for shard in broker.shares().states for key in shard.core.states]


async def test_offsets_of_an_empty_group_are_altered_and_deleted(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client, member = await fetched(broker, "a", "b", "c")
        await member.acknowledge((0, 2, [ACCEPT]))
        start = AlterShareGroupOffsetsPartition(partition_index=0, start_offset=1)
        unknown = AlterShareGroupOffsetsPartition(partition_index=7, start_offset=1)
        topic = AlterShareGroupOffsetsTopic(topic_name=TOPIC, partitions=(start, unknown))
        alter = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=(topic,))
        delete = DeleteShareGroupOffsetsRequest(
            group_id=GROUP,
            topics=(
                DeleteShareGroupOffsetsTopic(topic_name=TOPIC),
                DeleteShareGroupOffsetsTopic(topic_name="x"),
            ),
        )
        assert (
            await client.ask(alter, AlterShareGroupOffsetsResponse)
        ).error_code == ErrorCode.NON_EMPTY_GROUP
        assert (
            await client.ask(delete, DeleteShareGroupOffsetsResponse)
        ).error_code == ErrorCode.NON_EMPTY_GROUP
        await member.leave()
        altered = await client.ask(alter, AlterShareGroupOffsetsResponse)
        assert [each.error_code for each in altered.responses[0].partitions] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await described(client) == (1, 2)
        member = await Member.join(broker, "two")
        assert [each.value for each in await member.fetch()] == ["b", "c"]
        await member.acknowledge(epoch=-1)
        await member.leave()
        deleted = await client.ask(delete, DeleteShareGroupOffsetsResponse)
        assert [each.error_code for each in deleted.responses] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        member = await Member.join(broker, "three")
        assert [each.value for each in await member.fetch()] == ["a", "b", "c"]


@pytest.mark.requirement("R32")
async def test_the_first_request_after_a_restart_is_told_where_a_group_stands(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        _, member = await fetched(broker, "a", "b")
        assert await member.acknowledge((0, 0, [ACCEPT])) is ErrorCode.NONE
        await member.leave()
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        await load_group(client)  # It loads the group, not the group's state.
        assert await described(client) == (1, 1)


@pytest.mark.requirement("R32")
async def test_a_group_that_is_deleted_right_after_a_restart_leaves_no_state(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await left_group(broker)
    async with running(tmp_path) as broker:
        client = await Client.to(broker)
        await load_group(client)
        deleted = await client.ask(DeleteGroupsRequest(groups_names=(GROUP,)), DeleteGroupsResponse)
        assert [each.error_code for each in deleted.results] == [ErrorCode.NONE]
        assert states(broker) == []


@pytest.mark.requirement("R32")
@pytest.mark.parametrize(
    "what, moment",
    [
        ("delete group", "loaded"),
        ("delete group", "deleted"),
        ("delete offsets", "loaded"),
        ("alter offsets", "loaded"),
        ("alter offsets", "begun"),
    ],
)
async def test_a_group_that_moves_during_a_change_of_its_state_is_not_told_as_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, moment: str
) -> None:
    async with running(tmp_path) as broker:
        client = await left_group(broker)
        shares, shards = broker.shares(), broker.group_shards
        shard = shards.shard_of(GROUP)
        ready, ask = shares.states.ready, shares.states.ask

        async def move_while_loading(keys: list[ShareKey]) -> None:
            await ready(keys)
            shard.close()

        def move_before_the_answer(
            key: ShareKey, command: Callable[[int], object], respond: Callable[[Message], None]
        ) -> None:
            def answered(answer: Message) -> None:
                if shard.state is ShardState.ACTIVE:
                    shard.close()
                respond(answer)

            ask(key, command, answered)

        if moment == "loaded":
            monkeypatch.setattr(shares.states, "are_ready", lambda _keys: False)
            monkeypatch.setattr(shares.states, "ready", move_while_loading)
        else:
            monkeypatch.setattr(shares.states, "ask", move_before_the_answer)
        assert await code_of(client, what) == ErrorCode.NOT_COORDINATOR
        monkeypatch.undo()
        shards.refresh()
        with trio.fail_after(60):
            while shard.state is not ShardState.ACTIVE:
                await trio.sleep(0.01)
        assert await code_of(client, what) == ErrorCode.NONE


@pytest.mark.requirement("R32")
async def test_a_bug_as_share_state_is_loaded_ends_neither_the_broker_nor_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise LookupError("a bug")

    async with running(tmp_path) as broker:
        client = await left_group(broker)
        states = broker.shares().states
        monkeypatch.setattr(states, "are_ready", lambda _keys: False)
        monkeypatch.setattr(states, "ensure_topic", fail)
        assert await described(client) == (0, 2)


@pytest.mark.requirement("R32")
@pytest.mark.parametrize("what", ["delete group", "describe"])
async def test_a_bug_after_share_state_is_loaded_costs_one_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("a bug")

    async with running(tmp_path) as broker:
        client = await left_group(broker)
        shares = broker.shares()
        monkeypatch.setattr(shares.states, "are_ready", lambda _keys: False)
        monkeypatch.setattr(shares.states, "ask", fail)
        monkeypatch.setattr(broker.group_shards.shard_of(GROUP), "ask", fail)
        with pytest.raises(AssertionError, match="closed the connection"):
            await (described(client) if what == "describe" else code_of(client, what))
        monkeypatch.undo()
        assert await described(await Client.to(broker)) == (0, 2)


@pytest.mark.requirement("R32")
async def test_a_group_whose_state_could_not_be_initialized_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[None] = []

    async def fail() -> None:
        failed.append(None)
        raise LookupError("a bug")

    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a")
        monkeypatch.setattr(broker.shares().states, "ensure_topic", fail)
        topic_id = broker.metadata.snapshot().topics[TOPIC].topic_id
        member = Member(await Client.to(broker), "one", topic_id)
        with trio.fail_after(60):
            while not failed:
                await member.heartbeat()
                await trio.sleep(0.01)
        monkeypatch.undo()
        member = await Member.join(broker, "one")
        assert await member.fetch() == [Record(0, "a", 1)]


async def test_a_deleted_group_leaves_no_state(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client, member = await fetched(broker, "a")
        delete = DeleteGroupsRequest(groups_names=(GROUP,))
        (refused,) = (await client.ask(delete, DeleteGroupsResponse)).results
        assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
        await member.leave()
        (result,) = (await client.ask(delete, DeleteGroupsResponse)).results
        assert result.error_code == ErrorCode.NONE
        assert not states(broker)
        member = await Member.join(broker, "one")
        assert await member.fetch() == [Record(0, "a", 1)]


async def test_leftover_state_of_a_deleted_group_does_not_block_a_new_one(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a")
        topic_id = broker.metadata.snapshot().topics[TOPIC].topic_id
        key = ShareKey(GROUP, topic_id, 0)
        left: list[object] = []
        await broker.shares().states.ensure_topic()
        await broker.shares().states.ready([key])
        broker.shares().states.ask(key, lambda number: InitializeState(number, key, 99, 1), left.append)
        while not left:
            await trio.sleep(0.01)
        member = await Member.join(broker, "one")
        assert await member.fetch() == [Record(0, "a", 1)]


async def test_state_of_a_topic_is_deleted_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        member = await Member.join(broker, "one")
        await member.fetch(max_wait_ms=0)
        assert states(broker)
        topic = DeleteTopicState(name=TOPIC)
        await client.ask(DeleteTopicsRequest(topics=(topic,), timeout_ms=1000), DeleteTopicsResponse)
        with trio.fail_after(5):
            while states(broker):
                await trio.sleep(0.01)
        await produce_anew(client)
        member = await Member.join(broker, "one")
        assert await member.fetch() == [Record(0, "new", 1)]


async def produce_anew(client: Client) -> None:
    from kohort.protocol.messages.create_topics import (
        CreatableTopic,
        CreateTopicsRequest,
        CreateTopicsResponse,
    )

    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=())
    await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    await produce(client, "new")


async def test_a_pruned_log_of_share_state_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.broker.coordination.share_state_shards.PRUNED_BYTES_MIN", 1)
    async with running(tmp_path, ("share.coordinator.state.topic.prune.interval.ms", "50")) as broker:
        _, member = await fetched(broker, *"abcdefgh")
        for offset in range(1, 8, 2):
            assert await member.acknowledge((offset, offset, [ACCEPT])) is ErrorCode.NONE
        with trio.fail_after(5):
            while not any(
                each.log.log_start_offset
                for each in broker.partitions.of_topic(SHARE_STATE_TOPIC)
                if each.opened
            ):
                await trio.sleep(0.02)
    async with running(tmp_path) as broker:
        member = await Member.join(broker, "two")
        assert [each.value for each in await member.fetch()] == ["a", "c", "e", "g"]


async def test_a_failed_disk_of_the_state_topic_does_not_block_later_acknowledgements(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client, member = await fetched(broker, "a", "b")
        for shard in broker.shares().states:
            if shard.core.states:
                shard._fail()  # As after a flush that failed: it is loaded again from its log.
        assert await member.acknowledge((0, 0, [ACCEPT])) is ErrorCode.NONE
        assert await described(client) == (1, 1)


async def test_a_bug_in_the_core_reloads_the_coordinator_and_loses_no_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client, member = await fetched(broker, "a", "b")
        written: list[WriteState] = []
        write = ShareStateCoordinator._write

        def failing(core: ShareStateCoordinator, command: WriteState, now_ms: int) -> Decision:
            written.append(command)
            assert len(written) > 1, "a bug"
            return write(core, command, now_ms)

        monkeypatch.setattr(ShareStateCoordinator, "_write", failing)  # Of the cores that come.
        for shard in broker.shares().states:
            shard.core._handlers[WriteState] = partial(failing, shard.core)
        assert await member.acknowledge((0, 0, [ACCEPT])) is ErrorCode.NONE
        assert len(written) == 2
        assert await described(client) == (1, 1)


async def test_state_is_read_again_after_another_broker_led(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leadership that goes and comes back leaves nothing in memory: another broker has written since."""
    async with running(tmp_path) as broker:
        client, member = await fetched(broker, "a", "b")
        assert states(broker)
        kept = broker.shares().states
        monkeypatch.setattr(kept, "_others", object())  # As in a cluster.
        monkeypatch.setattr(kept, "is_here", lambda index: False)
        await configure_topic(client, SHARE_STATE_TOPIC)
        assert not states(broker)
        monkeypatch.undo()
        assert await member.acknowledge((0, 0, [ACCEPT])) is ErrorCode.NONE
        assert await described(client) == (1, 1)


async def test_setting_the_start_offset_of_an_unknown_group_creates_it(tmp_path: Path) -> None:
    """As on Apache Kafka: whoever sets offsets of a group that is not there has a group with these."""
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a", "b")
        group = await described_group(client)
        assert (group.error_code, group.topics) == (ErrorCode.NONE, ())
        altered = await client.ask(altering(1), AlterShareGroupOffsetsResponse)
        assert altered.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert await described(client) == (1, 1)
        member = await Member.join(broker, "m")
        assert [each.value for each in await member.fetch()] == ["b"]


async def test_other_brokers_can_request_state(tmp_path: Path) -> None:
    async with running(tmp_path) as broker, trio.open_nursery():
        client = await prepared(broker)
        await Member.join(broker, "m")
        topic_id = broker.metadata.snapshot().topics[TOPIC].topic_id
        partition = ReadShareGroupStatePartition(partition=0, leader_epoch=-1)
        topic = ReadShareGroupStateTopic(topic_id=topic_id, partitions=(partition,))
        request = ReadShareGroupStateRequest(group_id=GROUP, topics=(topic,))
        (result,) = (await client.ask(request, ReadShareGroupStateResponse)).results
        assert [(each.partition, each.error_code, each.state_epoch) for each in result.partitions] == [
            (0, 0, next_life(0))
        ]
        nothing = ReadShareGroupStateRequest(group_id=GROUP, topics=())
        assert (await client.ask(nothing, ReadShareGroupStateResponse)).results == ()
