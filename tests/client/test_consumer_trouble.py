"""What a consumer lives through: topics that go, offsets that are gone, members thrown out, migrations."""

from __future__ import annotations

import logging
import os
import signal
import time

import anyio
import pytest

from kohort.client import (
    Admin,
    CommitFailedError,
    Consumer,
    NewTopic,
    NoOffsetError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from kohort.client.cluster import Cluster
from kohort.client.config import ConsumerOptions, admin_config
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tests.client.steps import (
    LONG_MS,
    Diary,
    MakeTopic,
    Neighbour,
    has_ended,
    numbers,
    poll_until,
    produce,
    read,
)
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

ours_alone = pytest.mark.skipif(
    "KOHORT_TEST_BOOTSTRAP" in os.environ, reason="that broker is not ours to restart"
)


@pytest.fixture
def options(bootstrap: str, group: str) -> ConsumerOptions:
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        "partition_assignment_strategy": "cooperative-sticky",
    }


def throw_out(bootstrap: str, group: str, member_id: str) -> None:
    """Remove a member from its group, as an operator does."""

    async def main() -> None:
        async with Cluster(admin_config({"bootstrap_servers": bootstrap})) as cluster:
            member = MemberIdentity(
                member_id=member_id, group_instance_id=None, reason="thrown out by a test"
            )
            request = LeaveGroupRequest(group_id=group, member_id="", members=(member,))
            answer = await cluster.request_coordinator(group, request, LeaveGroupResponse)
            assert (answer.error_code, answer.members[0].error_code) == (0, 0)

    anyio.run(main)


@pytest.mark.requirement("R9", "R23", "R27")
def test_an_evicted_member_loses_its_partitions_calls_on_lost_and_rejoins(
    bootstrap: str,
    topic: MakeTopic,
    options: ConsumerOptions,
    group: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = topic(2)
    where = TopicPartition(name, 0)
    produce(bootstrap, name, 10)
    told = Diary()
    with caplog.at_level(logging.WARNING), Consumer(name, listener=told, **options) as consumer:
        assert len(read(consumer, 10)) == 10
        before = consumer.group_metadata()
        throw_out(bootstrap, group, before.member_id)
        with pytest.raises(CommitFailedError) as caught:
            consumer.commit({where: OffsetAndMetadata(1)})
        assert caught.value.partitions == (where,)
        poll_until(consumer, lambda: len(consumer.assignment()) == 2, "it is in again")
        assert consumer.group_metadata().member_id != before.member_id
        produce(bootstrap, name, 1, first=10)
        poll_until(consumer, lambda: sum(consumer.position(each) for each in consumer.assignment()) == 11, "")
    assert told.lines == [("assigned", (0, 1)), ("lost", (0, 1)), ("assigned", (0, 1)), ("revoked", (0, 1))]
    assert any("thrown out of group" in each and "UNKNOWN_MEMBER_ID" in each for each in caplog.messages)


@pytest.mark.requirement("R8")
def test_a_deleted_topic_does_not_block_others_and_is_read_again_after_it_is_recreated(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions
) -> None:
    stays, goes = topic(1), topic(1)
    produce(bootstrap, goes, 3)
    produce(bootstrap, stays, 1, first=10)
    options = {
        **options,
        "metadata_max_age_ms": 500,
        "allow_auto_create_topics": False,
        "default_api_timeout_ms": LONG_MS,
    }
    with Consumer(stays, goes, **options) as consumer, Admin(bootstrap_servers=bootstrap) as admin:
        assert numbers(read(consumer, 4)) == [0, 1, 2, 10]
        admin.delete_topics(goes)
        # Its offsets, which nobody takes any more, hold nothing up.
        poll_until(consumer, lambda: consumer.assignment() == (TopicPartition(stays, 0),), "it is gone")
        produce(bootstrap, stays, 5, first=11)
        assert numbers(read(consumer, 5)) == [11, 12, 13, 14, 15]
        admin.create_topics(NewTopic(goes, partitions=2))
        poll_until(consumer, lambda: len(consumer.assignment()) == 3, "it is back")
        produce(bootstrap, goes, 5, first=20)
        assert numbers(read(consumer, 5)) == [20, 21, 22, 23, 24]


@pytest.mark.requirement("R17")
def test_an_offset_out_of_range_is_reset_or_raised(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions, group: str
) -> None:
    name = topic(1)
    where = TopicPartition(name, 0)
    produce(bootstrap, name, 10)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(group, {where: OffsetAndMetadata(2)})
        admin.delete_records({where: 6})
    with Consumer(name, **options) as consumer:
        assert numbers(read(consumer, 4)) == [6, 7, 8, 9]
        consumer.seek(where, 500)
        assert numbers(read(consumer, 4)) == [6, 7, 8, 9], "by auto_offset_reset"
    strict: ConsumerOptions = {**options, "auto_offset_reset": "none"}
    with Consumer(name, **strict) as consumer:
        poll_until(consumer, consumer.assignment, "an assignment")
        consumer.seek(where, 500)
        with pytest.raises(NoOffsetError, match=r"out of range") as caught:
            read(consumer, 1)
        assert str(where) in str(caught.value)
        consumer.seek(where, 8)
        assert numbers(read(consumer, 2)) == [8, 9], "a seek mends it"


@pytest.mark.requirement("R17")
@pytest.mark.parametrize("policy, expected", [("by_duration:PT1H", [1, 2]), ("by_duration:P1D", [0, 1, 2])])
def test_without_a_commit_a_duration_is_a_start(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions, policy: str, expected: list[int]
) -> None:
    name = topic(1)
    now_ms = time.time_ns() // 1_000_000
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number, age_ms in enumerate((7_200_000, 1_800_000, 0)):
            producer.send(name, value=b"%d" % number, timestamp_ms=now_ms - age_ms)
    back: ConsumerOptions = {**options, "auto_offset_reset": policy}
    with Consumer(name, **back) as consumer:
        assert numbers(read(consumer, len(expected))) == expected


@ours_alone
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.requirement("R20")
def test_a_group_of_two_outlives_a_killed_coordinator_without_a_rebalance(
    broker: BrokerProcess, topic: MakeTopic, options: ConsumerOptions, strategy: str
) -> None:
    name = topic(4)
    options = {**options, "partition_assignment_strategy": strategy}
    told = Diary()
    with Consumer(name, listener=told, **options) as consumer:
        other = Neighbour(name, options)
        try:
            poll_until(
                consumer,
                lambda: [len(each.assignment()) for each in (consumer, other.consumer)] == [2, 2],
                "two share",
            )
            before, lines = consumer.group_metadata(), len(told.lines)
            broker.restart(signal.SIGKILL)
            produce(broker.bootstrap, name, 20)
            poll_until(
                consumer,
                lambda: sum(map(consumer.position, consumer.assignment())) + other.count == 20,
                "everything is read",
            )
            consumer.commit()
            assert consumer.group_metadata() == before
            assert len(told.lines) == lines, "no rebalance"
        finally:
            other.close()


@ours_alone
@pytest.mark.requirement("R22")
def test_close_ends_within_its_timeout_when_no_broker_answers(
    broker: BrokerProcess, topic: MakeTopic, options: ConsumerOptions
) -> None:
    name = topic(1)
    produce(broker.bootstrap, name, 3)
    told = Diary()
    options = {
        **options,
        "session_timeout_ms": 1_000,  # The broker misses it soon, for it hears no goodbye.
        "default_api_timeout_ms": LONG_MS,
    }
    consumer = Consumer(name, listener=told, **options)
    assert len(read(consumer, 3)) == 3
    broker.kill()
    try:
        consumer.close(timeout_ms=1_000)
        assert has_ended(consumer)
    finally:
        broker.start()
    assert told.lines == [("assigned", (0,)), ("revoked", (0,))]
    with Consumer(name, **options) as again:
        assert numbers(read(again, 3)) == [0, 1, 2], "nothing was committed"


@pytest.mark.requirement("R5", "R14")
def test_a_group_moves_live_from_range_to_cooperative(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions, group: str
) -> None:
    """Each member is restarted twice, with both assignors and then without the old one."""
    name = topic(6)
    steps = ("range", "cooperative-sticky,range", "cooperative-sticky")
    plans: list[ConsumerOptions] = [{**options, "partition_assignment_strategy": each} for each in steps]
    members = [Neighbour(name, plans[0]) for _ in range(3)]
    written = 0

    def everything_is_read() -> bool:
        return [len(each.consumer.assignment()) for each in members] == [2, 2, 2] and sum(
            each.offset for each in admin.list_group_offsets(group).values()
        ) == written

    with Admin(bootstrap_servers=bootstrap) as admin:
        try:
            for plan in plans:
                for index in range(3):
                    members[index].close()
                    members[index] = Neighbour(name, {**plan, "auto_commit_interval_ms": 100})
                    produce(bootstrap, name, 10, first=written)
                    written += 10
                    wait_until(
                        everything_is_read,
                        f"the group with {plan['partition_assignment_strategy']}",
                        within_s=20,
                    )
            assert admin.describe_groups(group)[group].assignor == "cooperative-sticky"
        finally:
            for each in members:
                each.close()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.requirement("R12")
def test_a_static_leader_returns_without_a_rebalance_and_stays_leader(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions, group: str, strategy: str
) -> None:
    name = topic(2)
    options = {**options, "partition_assignment_strategy": strategy, "metadata_max_age_ms": 300}
    told = Diary()

    def static(instance_id: str, listener: Diary | None = None) -> Consumer:
        with_instance: ConsumerOptions = {**options, "group_instance_id": instance_id}
        return Consumer(name, listener=listener, **with_instance)

    leads = static("leads")
    poll_until(leads, lambda: len(leads.assignment()) == 2, "it leads")
    with static("stays", told) as stays, Admin(bootstrap_servers=bootstrap) as admin:
        poll_until(leads, lambda: stays.poll(timeout_ms=20) or len(stays.assignment()) == 1, "two share")
        poll_until(leads, lambda: len(leads.assignment()) == 1, "two share")
        owned, before, lines = leads.assignment(), stays.group_metadata(), len(told.lines)
        leads.close()
        assert len(admin.describe_groups(group)[group].members) == 2, "nobody was told that it is gone"
        with static("leads") as back:
            poll_until(back, back.assignment, "it is back")
            assert back.assignment() == owned
            stays.poll(timeout_ms=500)
            assert (stays.group_metadata(), len(told.lines)) == (before, lines), "no rebalance"
            admin.create_partitions({name: 4})
            poll_until(
                back,
                lambda: stays.poll(timeout_ms=20) or len({*stays.assignment(), *back.assignment()}) == 4,
                "it has noticed the new partitions",
            )


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_missing_topic_is_reported_within_a_second(
    bootstrap: str, options: ConsumerOptions, by_hand: bool, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**options, "allow_auto_create_topics": False}
    with Consumer(**options) as consumer:
        if by_hand:
            consumer.assign(TopicPartition("mistyped", 0))
        else:
            consumer.subscribe("mistyped")
        assert consumer.poll(timeout_ms=1_500) == []
    found = [each for each in caplog.messages if "mistyped" in each and "does not exist" in each]
    assert len(found) == 1, caplog.messages
