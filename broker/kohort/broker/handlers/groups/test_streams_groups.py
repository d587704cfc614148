"""Streams groups in a whole broker: topics that are made, names that can't be, the feature switched off."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.test_shard import GROUP, Client, prepared
from kohort.broker.coordination.test_shard import running as running_shard
from kohort.broker.group.streams.test_world import application, subtopology, topic
from kohort.broker.group.streams.topology import Status
from kohort.broker.handlers.administration.authorized_operations import GROUP_OPERATIONS
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatSubtopology,
    StreamsGroupHeartbeatTaskIds,
)

AT_ONCE = ("group.streams.initial.rebalance.delay.ms", "0")
PATIENCE_S = 30


def running(folder: Path, *more: tuple[str, str]) -> AbstractAsyncContextManager[Broker]:
    return running_shard(folder, AT_ONCE, *more)


class Member:
    """A member that says what Kafka Streams says."""

    def __init__(self, client: Client, *parts: StreamsGroupHeartbeatSubtopology) -> None:
        self._client = client
        self._parts = parts
        self.epoch = 0
        self.tasks: tuple[StreamsGroupHeartbeatTaskIds, ...] = ()

    async def join(self) -> StreamsGroupHeartbeatResponse:
        return await self._send(
            StreamsGroupHeartbeatRequest(
                group_id=GROUP,
                member_id="m",
                member_epoch=0,
                endpoint_information_epoch=-1,
                rebalance_timeout_ms=60_000,
                topology=application(*self._parts),
                active_tasks=(),
                standby_tasks=(),
                warmup_tasks=(),
                process_id="p",
            )
        )

    async def heartbeat(self) -> StreamsGroupHeartbeatResponse:
        return await self._send(
            StreamsGroupHeartbeatRequest(
                group_id=GROUP, member_id="m", member_epoch=self.epoch, endpoint_information_epoch=-1
            )
        )

    async def ready(self) -> StreamsGroupHeartbeatResponse:
        """Send heartbeats until the group is stable, and return the last answer."""
        with trio.fail_after(PATIENCE_S):
            while (answer := await self.heartbeat()).status:
                await trio.sleep(answer.heartbeat_interval_ms / 1000)
        return answer

    async def _send(self, message: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        answer = await self._client.ask(message, StreamsGroupHeartbeatResponse, version=0)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            self.tasks = answer.active_tasks or self.tasks
        return answer


def statuses(answer: StreamsGroupHeartbeatResponse) -> dict[int, str]:
    return {each.status_code: each.status_detail for each in answer.status or ()}


def configs_of(broker: Broker, name: str) -> dict[str, str]:
    return dict(broker.metadata.snapshot().topics[name].configs)


async def test_the_broker_creates_missing_internal_topics(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        parts = (
            subtopology("0", "air", sinks=["g-r"]),
            subtopology("1", repartition=[topic("g-r", retention_ms="-1")], changelogs=["g-c"]),
        )
        member = Member(await prepared(broker), *parts)
        joined = await member.join()
        assert statuses(joined) == {Status.MISSING_INTERNAL_TOPICS: "Internal topics are missing: g-c, g-r"}
        await member.ready()
        told = {each.subtopology_id: each.partitions for each in member.tasks}
        assert told == {"0": (0, 1, 2), "1": (0, 1, 2)}
        topics = broker.metadata.snapshot().topics
        assert [len(topics[name].partitions) for name in ("g-c", "g-r")] == [3, 3]
        assert configs_of(broker, "g-c") == {"cleanup.policy": "compact"}
        assert configs_of(broker, "g-r") == {"retention.ms": "-1"}


async def test_the_reason_why_a_topic_was_not_created_is_returned(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        wrong = subtopology("0", "air", repartition=[topic("g-r", 2, no_such_setting="1")])
        member = Member(await prepared(broker), wrong)
        await member.join()
        with trio.fail_after(PATIENCE_S):
            while "Creation failed: g-r (" not in statuses(await member.heartbeat()).get(
                Status.MISSING_INTERNAL_TOPICS, ""
            ):
                await trio.sleep(0.01)
        assert "g-r" not in broker.metadata.snapshot().topics


@pytest.mark.parametrize(
    "sources, words",
    [
        (
            ["__consumer_offsets"],
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (["a b", "air"], "Topic names a b are not valid topic names."),
    ],
)
async def test_names_that_can_not_be_are_refused(tmp_path: Path, sources: Sequence[str], words: str) -> None:
    async with running(tmp_path) as broker:
        answer = await Member(await prepared(broker), subtopology("0", *sources)).join()
        assert (answer.error_code, answer.error_message) == (ErrorCode.STREAMS_INVALID_TOPOLOGY, words)


async def test_groups_are_described_and_unknown_ones_are_not_found(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await Member(client, subtopology("0", "air")).join()
        request = StreamsGroupDescribeRequest(group_ids=(GROUP, "nobody"), include_authorized_operations=True)
        found, missing = (await client.ask(request, StreamsGroupDescribeResponse)).groups
        assert (found.group_state, found.assignor_name, len(found.members)) == ("Stable", "sticky", 1)
        assert found.authorized_operations == GROUP_OPERATIONS
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def check_there_are_none(client: Client) -> None:
    joined = await Member(client, subtopology("0", "air")).join()
    assert joined.error_code == ErrorCode.UNSUPPORTED_VERSION
    request = StreamsGroupDescribeRequest(group_ids=(GROUP,), include_authorized_operations=False)
    (described,) = (await client.ask(request, StreamsGroupDescribeResponse)).groups
    assert described.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_without_their_protocol_there_are_no_streams_groups(tmp_path: Path) -> None:
    async with running(tmp_path, ("group.coordinator.rebalance.protocols", "classic,consumer")) as broker:
        await check_there_are_none(await prepared(broker))


async def test_without_the_feature_there_are_no_streams_groups(tmp_path: Path) -> None:
    async with running(tmp_path, ("kohort.streams.version", "0")) as broker:
        client = await prepared(broker)
        await check_there_are_none(client)
        versions = await client.ask(
            ApiVersionsRequest(client_software_name="a", client_software_version="1"),
            ApiVersionsResponse,
            version=3,
        )
        assert "streams.version" not in {each.name for each in versions.finalized_features}
        assert "streams.version" in {each.name for each in versions.supported_features}
