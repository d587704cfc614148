"""The blocking clients against a broker process."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import pytest

from kohort.client import (
    EARLIEST,
    LATEST,
    Admin,
    Assignor,
    BrokerError,
    ClosedError,
    CommitFailedError,
    ConfigurationError,
    Consumer,
    NetworkError,
    NewTopic,
    NoOffsetError,
    OffsetAndMetadata,
    Producer,
    ResourceType,
    TopicPartition,
)
from kohort.client.assignors import Assignment, Subscription
from kohort.client.config import ConsumerOptions
from kohort.protocol.errors import ErrorCode
from tests.client.steps import Diary, MakeTopic, numbers, produce, read
from tests.interop.waiting import wait_until


def test_sent_records_are_read(bootstrap: str, topic: MakeTopic, group: str) -> None:
    name = topic(3)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(name, value=b"a value", key=b"a key", headers=[("h", b"1"), ("none", None)])
        producer.send(name, value=None, key=b"a key")
        written = producer.send(name, value=b"third", key=b"a key", timestamp_ms=123).result()
    assert (written.topic, written.offset, written.timestamp_ms) == (name, 2, 123)
    with Consumer(
        name, group_id=group, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        records = read(consumer, 3)
    assert [(each.key, each.value, each.offset) for each in records] == [
        (b"a key", b"a value", 0),
        (b"a key", None, 1),
        (b"a key", b"third", 2),
    ]
    assert records[0].headers == (("h", b"1"), ("none", None))
    assert records[2].timestamp_ms == 123


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_every_compression_and_acks(
    bootstrap: str, topic: MakeTopic, compression: str, acks: str | int
) -> None:
    name = topic(1)
    with Producer(
        bootstrap_servers=bootstrap, compression_type=compression, acks=acks, linger_ms=50
    ) as producer:
        deliveries = [producer.send(name, value=b"x" * 500) for _ in range(100)]
        producer.flush()
        offsets = [each.result().offset for each in deliveries]
    assert offsets == ([-1] * 100 if acks == 0 else list(range(100)))
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign(TopicPartition(name, 0))
        consumer.seek_to_beginning()
        assert [each.value for each in read(consumer, 100)] == [b"x" * 500] * 100


def test_a_break_in_the_loop_commits_exactly_the_handled_records(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 100)
    options: ConsumerOptions = {
        "bootstrap_servers": bootstrap,
        "auto_offset_reset": "earliest",
        "group_id": group,
    }
    seen = []
    with Consumer(name, **options) as consumer:
        for record in consumer:
            seen.append(record.offset)
            if len(seen) == 7:
                break
    with Consumer(name, **options) as consumer:
        for record in consumer:
            seen.append(record.offset)
            if len(seen) == 100:
                break
    assert seen == list(range(100))


def test_two_members_share_the_partitions_and_one_takes_over(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(4)
    produce(bootstrap, name, 100)
    options: ConsumerOptions = {
        "bootstrap_servers": bootstrap,
        "auto_offset_reset": "earliest",
        "group_id": group,
        "heartbeat_interval_ms": 100,
    }
    told = Diary()
    with Consumer(name, listener=told, **options) as first:
        records = read(first, 100)
        second = Consumer(name, **options)
        ends = [False]

        def poll_second() -> None:
            while not ends[0]:
                records.extend(second.poll(timeout_ms=100))
            second.close()

        thread = threading.Thread(target=poll_second)
        thread.start()
        wait_until(
            lambda: first.poll(timeout_ms=50) or len(second.assignment()) == 2, "the second has its share"
        )
        assert len(first.assignment()) == 2
        assert set(first.assignment()).isdisjoint(second.assignment())
        produce(bootstrap, name, 100, first=100)

        def all_are_read() -> bool:
            records.extend(first.poll(timeout_ms=50))
            return len(records) >= 200

        wait_until(all_are_read, "both together have read everything")
        ends[0] = True
        thread.join()
        wait_until(
            lambda: first.poll(timeout_ms=50) or len(first.assignment()) == 4, "the first has all again"
        )
    assert numbers(records) == list(range(200)), "each record once: nothing was killed"
    assert told.events == [
        ("assigned", 4),
        ("revoked", 4),
        ("assigned", 2),
        ("revoked", 2),
        ("assigned", 4),
        ("revoked", 4),
    ]


def test_heartbeats_go_on_while_the_users_thread_computes(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 2)
    told = Diary()
    with Consumer(
        name,
        listener=told,
        group_id=group,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
    ) as consumer:
        assert len(read(consumer, 2)) == 2
        ends_s = time.monotonic() + 8
        while time.monotonic() < ends_s:
            sum(range(1_000))
        produce(bootstrap, name, 1, first=2)
        assert numbers(read(consumer, 1)) == [2]
        consumer.commit()
    assert told.events == [("assigned", 1), ("revoked", 1)]


def test_a_member_that_does_not_poll_leaves_and_rejoins(bootstrap: str, topic: MakeTopic, group: str) -> None:
    name = topic(1)
    produce(bootstrap, name, 2)
    told = Diary()
    with Consumer(
        name,
        listener=told,
        group_id=group,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        max_poll_interval_ms=1_000,
        heartbeat_interval_ms=200,
        enable_auto_commit=False,
    ) as consumer:
        assert len(read(consumer, 2)) == 2
        with Admin(bootstrap_servers=bootstrap) as admin:
            wait_until(lambda: admin.describe_groups(group)[group].state == "Empty", "the member has left")
        with pytest.raises(CommitFailedError, match="no member") as caught:
            consumer.commit()
        assert not caught.value.retriable
        assert numbers(read(consumer, 2)) == [0, 1], "what was not committed comes again"
    assert told.events == [("assigned", 1), ("lost", 1), ("assigned", 1), ("revoked", 1)]


def test_commits_keep_their_metadata(bootstrap: str, topic: MakeTopic, group: str) -> None:
    name = topic(2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    with Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        consumer.commit({first: OffsetAndMetadata(5, "a note")})
        assert consumer.committed(first, second) == {first: OffsetAndMetadata(5, "a note"), second: None}


def test_seek_pause_and_offset_lookups(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(name, value=b"%d" % number, timestamp_ms=1_000 * (number + 1))
    where = TopicPartition(name, 0)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign(where)
        assert consumer.position(where) == 10, "auto_offset_reset is latest"
        consumer.seek(where, 4)
        assert numbers(read(consumer, 6)) == [4, 5, 6, 7, 8, 9]
        consumer.seek_to_beginning(where)
        consumer.pause(where)
        assert consumer.poll(timeout_ms=300) == []
        consumer.resume(where)
        assert numbers(consumer.poll(max_records=3)) == [0, 1, 2]
        assert consumer.position(where) == 3
        assert (consumer.beginning_offsets(where), consumer.end_offsets(where)) == ({where: 0}, {where: 10})
        found = consumer.offsets_for_times({where: 2_500})[where]
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (2, 3_000)
        assert consumer.offsets_for_times({where: 99_000}) == {where: None}
        with pytest.raises(ValueError, match="not assigned"):
            consumer.seek(TopicPartition(name, 9), 0)


@pytest.mark.requirement("R17")
def test_without_a_committed_offset_none_is_an_error_and_a_duration_is_a_start(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    now_ms = time.time_ns() // 1_000_000
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number, age_ms in enumerate((7_200_000, 1_800_000, 0)):
            producer.send(name, value=b"%d" % number, timestamp_ms=now_ms - age_ms)
    with Consumer(name, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffsetError, match="no offset is committed"):
            read(consumer, 1)
        assert consumer.assignment() == (TopicPartition(name, 0),)
    with Consumer(
        name, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="by_duration:PT1H"
    ) as consumer:
        assert numbers(read(consumer, 2)) == [1, 2]


@pytest.mark.requirement("R8")
def test_a_topic_that_appears_later_is_read(bootstrap: str, topic: MakeTopic, group: str) -> None:
    prefix = topic(1)
    options: ConsumerOptions = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "metadata_max_age_ms": 300,
        "heartbeat_interval_ms": 200,
    }
    with Consumer(**options) as consumer:
        consumer.subscribe(pattern=f"{prefix}.*")
        produce(bootstrap, prefix, 1)
        assert numbers(read(consumer, 1)) == [0]
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(NewTopic(f"{prefix}-more", partitions=2))
        produce(bootstrap, f"{prefix}-more", 5)
        assert numbers(read(consumer, 5)) == [0, 1, 2, 3, 4]
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_partitions({prefix: 3})
        wait_until(lambda: consumer.poll(timeout_ms=50) or len(consumer.assignment()) == 5, "new partitions")
        assert consumer.subscription() == (prefix, f"{prefix}-more")


def test_a_custom_assignor_assigns(bootstrap: str, topic: MakeTopic, group: str) -> None:
    def only_the_last(
        subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
    ) -> Assignment:
        return {member_id: {wanted: (partition_counts[wanted] - 1,)} for member_id in subscriptions}

    wanted = topic(4)
    own = Assignor("only-the-last", only_the_last)
    with Consumer(
        wanted, bootstrap_servers=bootstrap, group_id=group, partition_assignment_strategy=own
    ) as consumer:
        wait_until(lambda: consumer.poll(timeout_ms=50) or consumer.assignment(), "an assignment")
        assert consumer.assignment() == (TopicPartition(wanted, 3),)


def test_an_error_in_an_assignor_is_raised_to_the_user(bootstrap: str, topic: MakeTopic, group: str) -> None:
    def broken(subscriptions: object, partition_counts: object) -> Assignment:
        raise ZeroDivisionError("oops")

    own = Assignor("broken", broken)
    with (
        Consumer(
            topic(1), bootstrap_servers=bootstrap, group_id=group, partition_assignment_strategy=own
        ) as consumer,
        pytest.raises(ConfigurationError, match="assignor 'broken' failed: ZeroDivisionError"),
    ):
        read(consumer, 1)


def test_members_without_a_common_assignor_get_an_error(bootstrap: str, topic: MakeTopic, group: str) -> None:
    name = topic(1)
    range_only: ConsumerOptions = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "partition_assignment_strategy": "range",
    }
    sticky_only: ConsumerOptions = {**range_only, "partition_assignment_strategy": "sticky"}
    with Consumer(name, **range_only) as first:
        wait_until(lambda: first.poll(timeout_ms=50) or first.assignment(), "an assignment")
        with (
            Consumer(name, **sticky_only) as second,
            pytest.raises(BrokerError, match="share no assignor") as caught,
        ):
            read(second, 1)
    assert caught.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_unsubscribing_leaves_and_subscribing_again_joins(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    first, second = topic(1), topic(1)
    produce(bootstrap, first, 1)
    produce(bootstrap, second, 1, first=1)
    with (
        Consumer(
            first, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        ) as consumer,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        assert numbers(read(consumer, 1)) == [0]
        consumer.unsubscribe()
        assert admin.describe_groups(group)[group].state == "Empty"
        with pytest.raises(ConfigurationError, match="nothing to read"):
            consumer.poll(timeout_ms=0)
        consumer.subscribe(second)
        assert numbers(read(consumer, 1)) == [1]


def test_a_wrong_record_is_refused_at_once(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(2)
    with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(TypeError, match=r"encode it: value=text.encode\(\)"):
            producer.send(name, value="text")  # type: ignore[arg-type]  # That is the mistake.
        with pytest.raises(BrokerError, match="partitions 0 to 1, not 2"):
            producer.send(name, value=b"x", partition=2)
        with pytest.raises(BrokerError, match="max_request_size") as caught:
            producer.send(name, value=b"x" * 2_000_000)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_only_records_of_a_refused_batch_fail(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs(ResourceType.TOPIC, name, values={"max.message.bytes": "1000"})
    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        with pytest.raises(BrokerError) as caught:
            producer.send(name, value=b"x" * 2_000).result()
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert producer.send(name, value=b"small").result().offset == 0


def test_a_closed_client_raises_closed_error(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    producer = Producer(bootstrap_servers=bootstrap)
    delivery = producer.send(name, value=b"x")
    producer.close()
    producer.close()
    assert delivery.result().offset == 0, "what was flushed is known after the close"
    with pytest.raises(ClosedError):
        producer.send(name, value=b"y")
    consumer = Consumer(bootstrap_servers=bootstrap)
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.poll(timeout_ms=0)


def test_no_broker_is_an_error_that_names_the_address() -> None:
    with (
        Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=300) as admin,
        pytest.raises(NetworkError, match=r"127\.0\.0\.1:1: Connection refused") as caught,
    ):
        admin.list_topics()
    assert caught.value.retriable


def test_topics_settings_and_offsets_by_the_admin(bootstrap: str, topic: MakeTopic, group: str) -> None:
    name = topic(2)
    where = TopicPartition(name, 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        with pytest.raises(BrokerError) as exists:
            admin.create_topics(NewTopic(name))
        assert exists.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert [each.partition for each in admin.describe_topics(name)[name].partitions] == [0, 1]
        admin.alter_configs(ResourceType.TOPIC, name, values={"retention.ms": "1234"})
        assert admin.describe_configs(ResourceType.TOPIC, name)["retention.ms"].value == "1234"
        admin.alter_configs(ResourceType.TOPIC, name, delete=["retention.ms"])
        assert admin.describe_configs(ResourceType.TOPIC, name)["retention.ms"].value == "604800000"
        node = admin.describe_cluster().nodes[0]
        assert "node.id" in admin.describe_configs(ResourceType.BROKER, str(node.node_id))
        produce(bootstrap, name, 50)
        ends = admin.list_offsets({where: LATEST, TopicPartition(name, 1): LATEST})
        assert sum(each.offset for each in ends.values()) == 50
        assert admin.delete_records({where: 2}) == {where: 2}
        assert admin.list_offsets({where: EARLIEST})[where].offset == 2
        admin.alter_group_offsets(group, {where: OffsetAndMetadata(3, "m")})
        assert admin.list_group_offsets(group) == {where: OffsetAndMetadata(3, "m")}
        assert group in [each.group_id for each in admin.list_groups(states=["Empty"])]
        admin.delete_group_offsets(group, where)
        assert admin.list_group_offsets(group) == {}
        admin.alter_group_offsets(group, {where: OffsetAndMetadata(3)})
        admin.delete_groups(group)
        with pytest.raises(BrokerError) as gone:
            admin.describe_groups(group)
        assert gone.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        admin.delete_topics(name)
        with pytest.raises(BrokerError, match="does not exist"):
            admin.describe_topics(name)
