"""What a consumer promises its user besides records: commits, wakeups, listeners, and reasons."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping

import anyio
import pytest

from kohort.client import (
    Admin,
    BrokerError,
    ClosedError,
    CommitFailedError,
    ConfigurationError,
    Consumer,
    ConsumerRecords,
    KohortError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    WakeupError,
)
from kohort.client.aio import Consumer as AsyncConsumer
from kohort.client.config import ConsumerOptions
from kohort.protocol.errors import ErrorCode
from tests.client.steps import LONG_MS, Diary, MakeTopic, Neighbour, poll_until, produce, read
from tests.interop.waiting import wait_until

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@pytest.fixture
def options(bootstrap: str, group: str) -> ConsumerOptions:
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        "enable_auto_commit": False,
    }


@pytest.fixture
def neighbour(options: ConsumerOptions) -> Iterator[Callable[[str], Neighbour]]:
    """Let another member join."""
    all_of_them: list[Neighbour] = []

    def join(topic: str, **more: object) -> Neighbour:
        all_of_them.append(Neighbour(topic, {**options, **more}))  # type: ignore[typeddict-item]  # As given.
        return all_of_them[-1]

    yield join
    for each in all_of_them:
        each.close()


@pytest.mark.requirement("R22")
def test_a_wakeup_from_another_thread_ends_a_poll_and_the_consumer_can_continue(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions
) -> None:
    name = topic(1)
    with Consumer(name, **options) as consumer:
        poll_until(consumer, consumer.assignment, "an assignment")
        timer = threading.Timer(0.2, consumer.wakeup)
        timer.start()
        with pytest.raises(WakeupError):
            consumer.poll(timeout_ms=LONG_MS)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            next(consumer)
        produce(bootstrap, name, 1)
        assert len(read(consumer, 1)) == 1


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.requirement("R22", "R23")
def test_the_asynchronous_consumer_wakes_up_calls_back_and_closes(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions, loop: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 3)
    told = Diary()
    outcomes: list[int] = []

    async def committed(offsets: Offsets, error: KohortError | None) -> None:
        await anyio.sleep(0)
        assert error is None
        outcomes.append(offsets[TopicPartition(name, 0)].offset)

    async def main() -> None:
        async with AsyncConsumer(name, listener=told, **options) as consumer:
            async for record in consumer:
                if record.offset == 2:
                    break
            consumer.commit_async(callback=committed)
            with anyio.fail_after(20):
                while not outcomes:
                    await consumer.poll(timeout_ms=20)
            threading.Timer(0.2, consumer.wakeup).start()
            with pytest.raises(WakeupError):
                await consumer.poll(timeout_ms=30_000)
            await consumer.close()
            with pytest.raises(ClosedError):
                await consumer.poll()

    anyio.run(main, backend=loop)
    assert outcomes == [3]
    assert told.lines == [("assigned", (0,)), ("revoked", (0,))], "a listener with plain methods does as well"


@pytest.mark.requirement("R22")
def test_background_commits_keep_their_order_and_call_back_in_the_polling_thread(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions
) -> None:
    name = topic(1)
    where = TopicPartition(name, 0)
    produce(bootstrap, name, 1)
    seen: list[tuple[int, KohortError | None, threading.Thread]] = []

    def committed(offsets: Offsets, error: KohortError | None) -> None:
        seen.append((offsets[where].offset, error, threading.current_thread()))

    with Consumer(name, **options) as consumer:
        read(consumer, 1)
        for offset in range(20):
            consumer.commit_async({where: OffsetAndMetadata(offset)}, committed)
        poll_until(consumer, lambda: len(seen) == 20, "all are told")
        consumer.commit_async({where: OffsetAndMetadata(77)}, committed)
        consumer.commit({where: OffsetAndMetadata(78)})
        assert consumer.committed(where) == {where: OffsetAndMetadata(78)}
        consumer.commit_async({where: OffsetAndMetadata(79)}, committed)
    assert [each[0] for each in seen] == [*range(20), 77, 79], "the close waited for the last"
    assert {each[1] for each in seen} == {None}
    assert {each[2] for each in seen} == {threading.current_thread()}
    with Consumer(**options) as consumer:
        assert consumer.committed(where) == {where: OffsetAndMetadata(79)}


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.requirement("R22", "R23")
def test_a_commit_after_a_revocation_names_the_partitions(
    bootstrap: str,
    topic: MakeTopic,
    options: ConsumerOptions,
    neighbour: Callable[..., Neighbour],
    strategy: str,
) -> None:
    name = topic(4)
    options = {**options, "partition_assignment_strategy": strategy}
    everything = {TopicPartition(name, each): OffsetAndMetadata(5) for each in range(4)}

    class Commits(Diary):
        def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
            super().on_revoked(partitions)
            consumer.commit({each: OffsetAndMetadata(3, "revoked") for each in partitions})

    told = Commits()
    with Consumer(name, listener=told, **options) as consumer:
        poll_until(consumer, lambda: len(consumer.assignment()) == 4, "all four")
        other = neighbour(name, partition_assignment_strategy=strategy)
        poll_until(consumer, lambda: len(other.consumer.assignment()) == 2, "the other has its share")
        poll_until(consumer, lambda: len(consumer.assignment()) == 2, "so has this one")
        gone = set(everything) - set(consumer.assignment())
        with pytest.raises(CommitFailedError) as caught:
            consumer.commit(everything)
        assert set(caught.value.partitions) == gone
        for each in gone:
            assert str(each) in str(caught.value)
        kept = consumer.assignment()
        assert {each for each in consumer.committed(*everything).values() if each} == {
            OffsetAndMetadata(3, "revoked")
        }, "the commit in on_revoked counted, the late one did not"
        consumer.commit({each: OffsetAndMetadata(6) for each in kept})
    first, *rest = told.lines
    assert first == ("assigned", (0, 1, 2, 3))
    revoked = rest[0][1] if strategy == "cooperative-sticky" else None
    if revoked is not None:
        assert set(revoked) == {each.partition for each in gone}, "no more than what moved"
        assert all(kind == "revoked" or not partitions for kind, partitions in rest)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.requirement("R9", "R22")
def test_a_member_that_processes_during_a_rebalance_can_commit_its_partitions(  # noqa: PLR0917  # Fixtures.
    bootstrap: str,
    topic: MakeTopic,
    options: ConsumerOptions,
    neighbour: Callable[..., Neighbour],
    group: str,
    strategy: str,
) -> None:
    """It has not polled, so nothing was taken from it yet; a cooperative one has joined anew meanwhile."""
    name = topic(4)
    options = {**options, "partition_assignment_strategy": strategy}
    with Consumer(name, **options) as consumer, Admin(bootstrap_servers=bootstrap) as admin:
        poll_until(consumer, lambda: len(consumer.assignment()) == 4, "all four")
        neighbour(name, partition_assignment_strategy=strategy)
        if strategy == "range":
            wait_until(lambda: admin.describe_groups(group)[group].state == "PreparingRebalance", "it begins")
        else:
            wait_until(lambda: consumer.group_metadata().generation_id == 2, "a generation without a poll")
        offsets = dict.fromkeys(consumer.assignment(), OffsetAndMetadata(7))
        assert len(offsets) == 4
        consumer.commit(offsets)
        assert consumer.committed(*offsets) == offsets
        poll_until(consumer, lambda: len(consumer.assignment()) == 2, "two are another's")
        assert consumer.committed(*offsets) == offsets


@pytest.mark.requirement("R22")
def test_records_can_be_committed_only_while_their_partitions_stay_assigned(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions, neighbour: Callable[..., Neighbour]
) -> None:
    """A partition that went and came back may have been read on: what was polled before is void."""
    name = topic(4)
    options = {**options, "partition_assignment_strategy": "cooperative-sticky"}
    with Producer(bootstrap_servers=bootstrap) as producer:
        for partition in range(4):
            producer.send(name, value=b"x", partition=partition)
    with Consumer(name, **options) as consumer:
        records = ConsumerRecords()
        while len(records) < 4:
            consumer.seek_to_beginning()
            records = consumer.poll(timeout_ms=100)
        assert set(records.partitions()) == set(consumer.assignment())
        assert [each.offset for each in records.of(TopicPartition(name, 3))] == [0]
        consumer.commit(records)
        assert set(consumer.committed(*records.partitions()).values()) == {OffsetAndMetadata(1)}
        other = neighbour(name, partition_assignment_strategy="cooperative-sticky")
        poll_until(consumer, lambda: len(other.consumer.assignment()) == 2, "half of it is another's")
        away = set(records.partitions()) - set(consumer.assignment())
        other.close()
        poll_until(consumer, lambda: len(consumer.assignment()) == 4, "all is back")
        with pytest.raises(CommitFailedError) as caught:
            consumer.commit(records)
        assert set(caught.value.partitions) == away, "those that stayed could be committed still"
        with pytest.raises(CommitFailedError):
            consumer.commit_async(records)


@pytest.mark.requirement("R22")
def test_the_lag_is_taken_from_fetch_answers(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions
) -> None:
    name = topic(1)
    where = TopicPartition(name, 0)
    produce(bootstrap, name, 10)
    with Consumer(name, **options) as consumer:
        assert len(consumer.poll(max_records=3)) == 3
        assert consumer.current_lag(where) == 7
        assert len(read(consumer, 7)) == 7
        assert consumer.current_lag(where) == 0
        produce(bootstrap, name, 2)
        consumer.pause(where)
        consumer.resume(where)
        wait_until(lambda: consumer.current_lag(where) == 2, "the next answer has told")


@pytest.mark.requirement("R8", "R11")
def test_a_rebalance_can_be_enforced_and_the_group_metadata_follows(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions, group: str
) -> None:
    with Consumer(topic(2), **options) as consumer:
        poll_until(consumer, consumer.assignment, "an assignment")
        before = consumer.group_metadata()
        assert (before.group_id, before.generation_id) == (group, 1)
        consumer.enforce_rebalance("to see it")
        poll_until(consumer, lambda: consumer.group_metadata().generation_id == 2, "another generation")
        assert consumer.group_metadata().member_id == before.member_id


@pytest.mark.requirement("R22")
def test_subscribing_and_assigning_exclude_each_other(topic: MakeTopic, options: ConsumerOptions) -> None:
    name = topic(2)
    with Consumer(name, **options) as consumer:
        with pytest.raises(ConfigurationError, match="unsubscribe before you assign"):
            consumer.assign(TopicPartition(name, 0))
        consumer.unsubscribe()
        consumer.assign(TopicPartition(name, 0))
        with pytest.raises(ConfigurationError, match="unsubscribe before you subscribe"):
            consumer.subscribe(name)
        consumer.pause()
        assert consumer.paused() == (TopicPartition(name, 0),)
        consumer.resume()
        assert consumer.paused() == ()


@pytest.mark.requirement("R12")
def test_a_fenced_static_member_gets_a_fatal_error(
    topic: MakeTopic, options: ConsumerOptions, neighbour: Callable[..., Neighbour]
) -> None:
    name = topic(1)
    static: ConsumerOptions = {**options, "group_instance_id": "one"}
    with Consumer(name, **static) as consumer:
        poll_until(consumer, consumer.assignment, "an assignment")
        other = neighbour(name, group_instance_id="one")
        with pytest.raises(BrokerError, match="taken this group_instance_id over"):
            poll_until(consumer, lambda: False, "it is fenced")
        with pytest.raises(BrokerError) as again:
            consumer.poll(timeout_ms=0)
        assert again.value.code is ErrorCode.FENCED_INSTANCE_ID
        wait_until(other.consumer.assignment, "the other has the partition")


@pytest.mark.requirement("R13", "R27")
def test_a_late_poll_reports_the_time_spent_and_the_setting_to_change(
    bootstrap: str,
    topic: MakeTopic,
    options: ConsumerOptions,
    group: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = topic(1)
    produce(bootstrap, name, 50)
    options = {**options, "max_poll_interval_ms": 600, "max_poll_records": 40}
    with (
        caplog.at_level(logging.WARNING),
        Consumer(name, **options) as consumer,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        assert len(read(consumer, 1)) == 40
        wait_until(lambda: admin.describe_groups(group)[group].state == "Empty", "it has left")
        assert [each for each in caplog.messages if "left group" in each], "said while the user is busy still"
        with pytest.raises(CommitFailedError, match="Its code held 40 records"):
            consumer.commit()
        consumer.poll(timeout_ms=0)
    _, told = [each for each in caplog.messages if "left group" in each]
    assert f"left group {group!r}" in told
    assert "consumer poll timeout has expired." in told
    assert f"Its code held 40 records ({name}-0 from 0 to 39) for" in told
    assert "the poll before took" in told
    advice = (
        r"Set max_poll_interval_ms \(600\) to \d+000 or more, or max_poll_records \(40\) to \d+ or fewer$"
    )
    assert re.search(advice, told)


@pytest.mark.requirement("R23")
def test_a_leaving_member_calls_its_listener_and_leaves_although_it_fails(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions, group: str
) -> None:
    class Fails(Diary):
        def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
            super().on_revoked(partitions)
            raise ZeroDivisionError

    told = Fails()
    consumer = Consumer(topic(1), listener=told, **options)
    poll_until(consumer, consumer.assignment, "an assignment")
    with pytest.raises(ZeroDivisionError):
        consumer.close()
    assert told.lines == [("assigned", (0,)), ("revoked", (0,))]
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.describe_groups(group)[group].state == "Empty"
