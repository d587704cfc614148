"""A found coordinator serves the next request, whether its groups were never asked for or lie on disk."""

from pathlib import Path

import pytest

from kohort.broker.broker import Broker
from kohort.broker.coordination.shard import ShardState
from kohort.broker.coordination.test_shard import GROUP, Client, commit, committed, running
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse


async def find(broker: Broker) -> Client:
    """Return a client that has just been told where its group's coordinator is."""
    client = await Client.to(broker)
    found = await client.ask(FindCoordinatorRequest(coordinator_keys=(GROUP,)), FindCoordinatorResponse)
    assert [each.error_code for each in found.coordinators] == [0]
    return client


@pytest.mark.requirement("R1")
async def test_the_coordinator_of_a_new_broker_is_ready_after_find_coordinator(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert await committed(await find(broker)) == {}


async def test_the_coordinator_is_ready_again_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await find(broker)
    async with running(tmp_path) as broker:
        assert await committed(await find(broker)) == {}


async def test_a_successful_answer_has_kafkas_message(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await find(broker)
        found = await client.ask(FindCoordinatorRequest(coordinator_keys=(GROUP,)), FindCoordinatorResponse)
        assert [each.error_message for each in found.coordinators] == [""]
        old = await client.ask(FindCoordinatorRequest(key=GROUP), FindCoordinatorResponse, version=3)
        assert old.error_message == "NONE"


async def test_a_coordinator_that_loads_too_long_is_named_all_the_same(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await find(broker)
        shard = broker.group_shards.shard_of(GROUP)
        broker.group_shards.loading.add(shard.index)  # As if a load were under way and slow.
        shard.close()
        client = await find(broker)
        assert shard.state is ShardState.CLOSED
        assert await commit(client, 1) != 0
