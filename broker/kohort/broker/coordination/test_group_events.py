"""`__group_events` in a whole broker with real files: what is written, what is not, and that nobody waits."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination import group_events
from kohort.broker.coordination.test_shard import (
    GROUP,
    Client,
    commit,
    committed,
    found,
    joined,
    prepared,
    running,
)
from kohort.broker.group.events import Event, GroupDeleted
from kohort.broker.metadata import GROUP_EVENTS_TOPIC, TopicState
from kohort.protocol.records import iterate_records
from kohort.storage import StorageError


def written(broker: Broker) -> list[dict[str, object]]:
    """Every event in the topic's log, with the key of its record."""
    found: list[dict[str, object]] = []
    for partition in broker.partitions.of_topic(GROUP_EVENTS_TOPIC):
        if partition.serving_log is not None:
            for batch in partition.log.read_batches():
                for record in iterate_records(batch):
                    assert record.key is not None
                    assert record.value is not None
                    found.append({**msgspec.json.decode(record.value), "key": bytes(record.key).decode()})
    return found


def kinds(broker: Broker) -> list[object]:
    return [each["event"] for each in written(broker)]


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not condition():
            await trio.sleep(0.005)


def deletion(number: int) -> Event:
    return GroupDeleted(group_id=f"g{number}", at_ms=1_000, expired=False)


async def test_a_rebalance_is_written_as_json_with_the_group_as_key(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await joined(await prepared(broker))
        await until(lambda: "RebalanceCompleted" in kinds(broker))
        assert kinds(broker) == [
            "MemberIdGiven",
            "MemberJoined",
            "RebalanceStarted",
            "JoinCompleted",
            "RebalanceCompleted",
        ]
        assert {each["key"] for each in written(broker)} == {GROUP}
        assert broker.group_counters.group_events == len(written(broker))


async def test_a_bug_in_the_creation_of_the_topic_affects_only_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_events, "RETRY_MS", 20)
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        ensure_topic = broker.group_events._ensure_topic
        failures: list[Exception] = []

        async def failing() -> TopicState:
            if len(failures) < 2:
                failures.append(KeyError("a bug"))
                raise failures[-1]
            return await ensure_topic()

        monkeypatch.setattr(broker.group_events, "_ensure_topic", failing)
        broker.group_events.note(deletion(1))
        await until(lambda: len(failures) == 2)
        assert await commit(client, 3) == 0
        await until(lambda: kinds(broker) == ["GroupDeleted"])


async def test_events_outlive_a_clean_stop_and_new_ones_follow_them(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await joined(await prepared(broker))
        await until(lambda: "RebalanceCompleted" in kinds(broker))
        before = len(written(broker))
        broker.group_events.note(deletion(1))  # The stop comes before its timer.
    async with running(tmp_path) as broker:
        await found(await Client.to(broker))
        await until(lambda: "GroupLoaded" in kinds(broker))
        assert kinds(broker)[before:] == ["GroupDeleted", "GroupLoaded"]


async def test_the_topic_is_created_with_the_first_event_and_never_synced_for_itself(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 3) == 0
        assert GROUP_EVENTS_TOPIC not in broker.metadata.snapshot().topics
        await joined(client)
        await until(lambda: "RebalanceCompleted" in kinds(broker))
        (partition,) = broker.partitions.of_topic(GROUP_EVENTS_TOPIC)
        assert not partition.durable
        assert partition.config.cleanup_policy == ("delete",)


async def test_no_events_are_written_when_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    off = (("kohort.group.events.enable", "false"), ("group.initial.rebalance.delay.ms", "0"))
    monkeypatch.setattr("kohort.broker.coordination.test_shard.SETTINGS", off)
    async with running(tmp_path) as broker:
        await joined(await prepared(broker))
        await trio.sleep(5 * group_events.LINGER_MS / 1000)
        assert GROUP_EVENTS_TOPIC not in broker.metadata.snapshot().topics
        group = next(broker.group_shards.groups())
        assert len(broker.group_shards.rebalances(group.group_id).history) == 1


async def test_a_failed_log_loses_only_its_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await joined(client)
        await until(lambda: "RebalanceCompleted" in kinds(broker))
        (partition,) = broker.partitions.of_topic(GROUP_EVENTS_TOPIC)

        def fail(batch: bytes) -> int:
            raise StorageError("the disk is full")

        monkeypatch.setattr(type(partition), "append_own", lambda self, batch: fail(batch))
        for number in range(3):
            broker.group_events.note(deletion(number))
        await until(lambda: broker.group_counters.group_events_dropped == 3)
        monkeypatch.undo()
        broker.group_events.note(deletion(9))
        await until(lambda: written(broker)[-1]["group_id"] == "g9")
        assert await committed(client) == {}


async def test_too_many_waiting_events_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_events, "EVENTS_WAITING_MAX", 600)
    async with running(tmp_path) as broker:
        for number in range(1_000):
            broker.group_events.note(deletion(number))
        assert broker.group_counters.group_events_dropped == 400
        await until(lambda: broker.group_counters.group_events == 600)
        assert [each["group_id"] for each in written(broker)] == [f"g{number}" for number in range(600)]


async def test_a_deleted_topic_is_created_again(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        broker.group_events.note(deletion(1))
        await until(lambda: kinds(broker) == ["GroupDeleted"])
        await broker.topics.delete([GROUP_EVENTS_TOPIC])
        broker.group_events.note(deletion(2))
        await until(lambda: bool(written(broker)) and written(broker)[0]["group_id"] == "g2")
