"""What the handlers of the group APIs add to the core: ids, several groups at once, shards that load."""

import re
import uuid
from pathlib import Path

import pytest

from kohort.broker.coordination.test_shard import GROUP, Client, commit, found, prepared, running, shard_of
from kohort.broker.group import coordinator_partition
from kohort.broker.handlers.groups.family import random_uuid_text
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


async def join(client: Client, instance_id: str | None) -> JoinGroupResponse:
    message = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="",
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    return await client.ask(message, JoinGroupResponse)


async def fetched(client: Client, *groups: str, stable: bool) -> list[OffsetFetchResponseGroup]:
    asked = tuple(OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups)
    answer = await client.ask(
        OffsetFetchRequest(groups=asked, require_stable=stable), OffsetFetchResponse, version=9
    )
    return list(answer.groups)


@pytest.mark.requirement("R3")
async def test_a_member_id_is_the_client_id_a_dash_and_a_uuid(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        given = await join(client, None)
        assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert re.fullmatch(f"test-{UUID}", given.member_id)
        assert (await join(client, None)).member_id != given.member_id


@pytest.mark.requirement("R3")
async def test_the_id_of_a_static_member_starts_with_its_instance_id(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        joined = await join(await prepared(broker), "one")
        assert joined.error_code == ErrorCode.NONE
        assert re.fullmatch(f"one-{UUID}", joined.member_id)


@pytest.mark.requirement("R16")
@pytest.mark.parametrize("stable", [False, True])
async def test_offsets_of_several_groups_come_in_one_answer(tmp_path: Path, stable: bool) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await commit(client, 7)
        one, other = await fetched(client, GROUP, "nobody", stable=stable)
        assert (one.group_id, other.group_id) == (GROUP, "nobody")
        (topic,) = one.topics
        assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [(1, 7)]
        assert (other.error_code, other.topics) == (ErrorCode.NONE, ())


@pytest.mark.requirement("R20")
async def test_other_shards_serve_while_one_loads(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        shard = shard_of(broker)
        other = next(each for each in map(str, range(99)) if coordinator_partition(each, 4) != shard.index)
        await client.ask(FindCoordinatorRequest(coordinator_keys=(other,)), FindCoordinatorResponse)
        broker.group_shards.loading.add(shard.index)  # As if a load were under way and slow.
        shard.close()
        one, another = await fetched(client, GROUP, other, stable=False)
        assert one.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert another.error_code == ErrorCode.NONE
        heartbeat = HeartbeatRequest(group_id=other, generation_id=1, member_id="nobody")
        answer = await client.ask(heartbeat, HeartbeatResponse)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        broker.group_shards.loading.discard(shard.index)
        broker.group_shards.refresh()
        await found(client)


@pytest.mark.parametrize("client_id, instance_id", [("c" * 32_767, None), ("short", "i" * 32_767)])
async def test_a_member_id_is_short_enough_for_every_answer(
    tmp_path: Path, client_id: str, instance_id: str | None
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        client.client_id = client_id
        joined = await join(client, instance_id)
        assert joined.error_code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NONE)
        assert re.fullmatch(f"[ci]{{249}}-{UUID}", joined.member_id)


async def test_a_group_that_is_named_again_and_again_is_answered_once(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await commit(client, 7)
        answers = await fetched(client, GROUP, "nobody", GROUP, GROUP, stable=False)
        assert [each.group_id for each in answers] == [GROUP, "nobody"]
        described = await client.ask(DescribeGroupsRequest(groups=(GROUP,) * 50), DescribeGroupsResponse)
        assert [each.group_id for each in described.groups] == [GROUP]


async def test_authorized_operations_of_a_group_are_returned_on_request(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await commit(client, 1)
        for asked, told in ((True, 0b1101_0100_1000), (False, -(2**31))):
            request = DescribeGroupsRequest(groups=(GROUP,), include_authorized_operations=asked)
            (found,) = (await client.ask(request, DescribeGroupsResponse)).groups
            assert found.authorized_operations == told


@pytest.mark.parametrize(
    ("name", "value", "features"),
    [
        ("kohort.group.version", "0", set[str]()),
        ("group.coordinator.rebalance.protocols", "classic,streams", {"group.version"}),
    ],
)
async def test_consumer_groups_can_be_disabled(
    tmp_path: Path, name: str, value: str, features: set[str]
) -> None:
    async with running(tmp_path, (name, value)) as broker:
        client = await prepared(broker)
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("air",),
            topic_partitions=(),
        )
        joined = await client.ask(heartbeat, ConsumerGroupHeartbeatResponse)
        assert joined.error_code == ErrorCode.UNSUPPORTED_VERSION
        describe = ConsumerGroupDescribeRequest(group_ids=(GROUP,), include_authorized_operations=False)
        (described,) = (await client.ask(describe, ConsumerGroupDescribeResponse)).groups
        assert described.error_code == ErrorCode.UNSUPPORTED_VERSION
        software = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        versions = await client.ask(software, ApiVersionsResponse, version=3)
        assert {each.name for each in versions.finalized_features} & {"group.version"} == features
        assert (await join(client, None)).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_random_ids_are_uuids_of_version_4() -> None:
    made = {random_uuid_text() for _ in range(500)}
    assert len(made) == 500
    assert all(str(uuid.UUID(each)) == each and uuid.UUID(each).version == 4 for each in made)
    assert {uuid.UUID(each).variant for each in made} == {uuid.RFC_4122}
    assert {each[19] for each in made} == set("89ab")
