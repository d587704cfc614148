"""`/api/v1/share-groups/GROUP`: records that members hold, release, or never acknowledge."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from kohort.broker.broker import Broker
from kohort.broker.handlers.share.test_support import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    TOPIC,
    Member,
    prepared,
    produce,
    running,
)
from kohort.broker.http.pages import application
from kohort.broker.http.questions import Question, answered
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

PATIENCE_S = 30.0


async def told(broker: Broker, group_id: str = GROUP) -> tuple[int, Any]:
    """Return the status and the content."""
    answer = await answered(application(broker.view()), Question("GET", f"/api/v1/share-groups/{group_id}"))
    return answer.status, json.loads(answer.body)


async def told_once(broker: Broker, is_there: Callable[[Any], bool]) -> Any:
    """Return what is told of the one partition once it is as it should be."""
    with trio.fail_after(PATIENCE_S):
        while True:
            status, found = await told(broker)
            if status == 200 and len(found["partitions"]) == 1 and is_there(found["partitions"][0]):
                return found["partitions"][0]
            await trio.sleep(0.01)


def in_short(partition: Any) -> list[tuple[str, str | None, int, int]]:
    return [
        (each["outcome"], each["reason"], each["first_offset"], each["last_offset"])
        for each in partition["happened"]
    ]


async def test_it_names_acquired_records_and_returned_records(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert (await told(broker, "nobody"))[0] == 404
        await produce(client, "a", "b", "c", "d", "e")
        member = await Member.join(broker, "one")
        before_ms = time.time_ns() // 1_000_000
        await member.fetch()
        assert await member.acknowledge((0, 2, [ACCEPT, RELEASE, REJECT])) is ErrorCode.NONE
        status, found = await told(broker)
        assert status == 200
        assert (found["group_id"], found["broker_id"]) == (GROUP, broker.node_id)
        assert (found["group"]["members"], found["group"]["hold_ups"]) == (1, [])
        (partition,) = found["partitions"]
        assert (partition["topic"], partition["partition"], partition["start_offset"]) == (TOPIC, 0, 1)
        (held,) = partition["held"]
        assert (held["first_offset"], held["last_offset"], held["member_id"]) == (3, 4, "one")
        assert abs(held["since_ms"] - before_ms) < PATIENCE_S * 1_000
        assert held["lock_until_ms"] > held["since_ms"]
        assert (partition["held_records"], partition["again_records"]) == (2, 1)
        assert in_short(partition) == [
            ("comes_again", "released", 1, 1),
            ("given_up", "rejected", 2, 2),
        ]
        assert abs(partition["happened"][0]["at_ms"] - before_ms) < PATIENCE_S * 1_000


async def test_it_explains_records_that_returned_without_a_release(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a", "b")
        one, two = await Member.join(broker, "one"), await Member.join(broker, "two")
        await one.fetch()
        assert await one.acknowledge(epoch=-1) is ErrorCode.NONE
        partition = await told_once(broker, lambda each: len(each["happened"]) == 1)
        assert in_short(partition) == [("comes_again", "session_closed", 0, 1)]
        assert len(await two.fetch()) == 2
        await two.client._stream.aclose()
        partition = await told_once(broker, lambda each: len(each["happened"]) == 2)
        assert in_short(partition)[1] == ("comes_again", "connection_lost", 0, 1)
        assert partition["happened"][1]["member_id"] == "two"


async def test_events_are_known_after_the_last_member_left(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(client, "a")
        member = await Member.join(broker, "one")
        await member.fetch()
        assert await member.acknowledge((0, 0, [RELEASE])) is ErrorCode.NONE
        assert await member.acknowledge(epoch=-1) is ErrorCode.NONE
        partition = await told_once(broker, lambda each: each["start_offset"] is None)
        assert in_short(partition) == [("comes_again", "released", 0, 0)]
        again = await Member.join(broker, "two")
        assert len(await again.fetch()) == 1
        partition = await told_once(broker, lambda each: each["held_records"] == 1)
        assert in_short(partition) == [("comes_again", "released", 0, 0)]
        assert await again.acknowledge((0, 0, [ACCEPT])) is ErrorCode.NONE
        assert await again.acknowledge(epoch=-1) is ErrorCode.NONE
        await told_once(broker, lambda each: each["start_offset"] is None)
        await member.leave()
        await again.leave()
        answer = await client.ask(DeleteGroupsRequest(groups_names=(GROUP,)), DeleteGroupsResponse)
        assert [each.error_code for each in answer.results] == [0]
        assert (await told(broker))[0] == 404, "the group is gone, with all that is known of it"


async def test_records_without_a_dead_letter_are_reported(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker, errors_deadletterqueue_topic_name="nowhere")
        await produce(client, "a", "b")
        member = await Member.join(broker, "one")
        await member.fetch()
        assert await member.acknowledge((0, 0, [REJECT])) is ErrorCode.NONE
        partition = await told_once(broker, lambda each: len(each["happened"]) == 2)
        assert in_short(partition) == [
            ("waits_for_dead_letter", "rejected", 0, 0),
            ("no_dead_letter", None, 0, 0),
        ]
        assert partition["letter_records"] == 0
