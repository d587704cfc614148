"""ShareConsumer (KIP-932) against kohort, and with KOHORT_TEST_MIXED=1 against Apache Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast

import anyio
import pytest

from kohort.client import (
    AcknowledgeType,
    Admin,
    ClusterConnection,
    ConfigurationError,
    DeserializationError,
    ItemsError,
    KohortError,
    NotAcquiredError,
    Producer,
    ResourceType,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
    WakeupError,
    aio,
)
from kohort.client.share.config import ShareConsumerOptions
from kohort.protocol.errors import ErrorCode
from tests.client.conftest import BOOTSTRAP_VARIABLE
from tests.differential import apache_kafka
from tests.interop.broker_process import BrokerProcess
from tests.interop.conftest import MIXED_VARIABLE
from tests.interop.waiting import wait_until

LOCK_MS = 1_500
SETTINGS = (
    "group.share.heartbeat.interval.ms=300",
    "group.share.session.timeout.ms=3000",
    f"group.share.record.lock.duration.ms={LOCK_MS}",
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.min.session.timeout.ms=1000",
    "group.share.min.record.lock.duration.ms=1000",
)
OF_KAFKA = (
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
only_mixed = pytest.mark.skipif(MIXED_VARIABLE not in os.environ, reason="KOHORT_TEST_MIXED=1 runs it")
both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])
MakeTopic = Callable[[int], str]
VICTIM = """
import sys
from kohort.client import ShareConsumer
with ShareConsumer(sys.argv[3], bootstrap_servers=sys.argv[1], group_id=sys.argv[2]) as consumer:
    print(len(consumer.poll()), flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module", params=["kohort", pytest.param("apache", marks=only_mixed)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where each of the two brokers listens, in turn; locks of records are short."""
    folder = tmp_path_factory.mktemp("broker")
    if request.param == "apache":
        with apache_kafka.running(folder, *SETTINGS, *OF_KAFKA) as address:
            yield address
    elif BOOTSTRAP_VARIABLE in os.environ:
        pytest.skip(f"{BOOTSTRAP_VARIABLE} names a broker with its own settings")
    else:
        own = BrokerProcess(folder, *SETTINGS)
        own.start()
        yield own.bootstrap
        own.stop()


@pytest.fixture
def share_group(bootstrap: str, group: str) -> str:
    """A share group that begins with the first record."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs(ResourceType.GROUP, group, values={"share.auto.offset.reset": "earliest"})
    return group


def options(bootstrap: str, group: str, **more: Any) -> ShareConsumerOptions:
    """Settings of a member."""
    return cast("ShareConsumerOptions", {"bootstrap_servers": bootstrap, "group_id": group, **more})


def explicit(bootstrap: str, group: str, **more: Any) -> ShareConsumerOptions:
    """Settings of a member that says what became of each record."""
    return options(bootstrap, group, share_acknowledgement_mode="explicit", **more)


def produce(bootstrap: str, topic: str, *values: str, partitions: int = 1) -> None:
    """Write these to the partitions in turn, each in a batch of its own."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value.encode(), partition=number % partitions).result()


def value(record: ShareRecord) -> str:
    """Return what was written."""
    return (record.value or b"").decode()


def polled(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """Return so many records, of as few polls as it takes. For explicit mode, or one poll."""
    found: list[ShareRecord] = []
    deadline_s = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline_s:
        found += consumer.poll(timeout_ms=200)
    assert len(found) == count, found
    return found


def nothing_comes(consumer: ShareConsumer, for_ms: int = 700) -> bool:
    """Whether no record comes for a while: a lock's time is longer."""
    return consumer.poll(timeout_ms=for_ms) == []


@pytest.mark.requirement("R32")
def test_a_poll_accepts_the_records_of_the_poll_before(
    bootstrap: str, topic: MakeTopic, share_group: str
) -> None:
    name = topic(2)
    produce(bootstrap, name, *map(str, range(40)), partitions=2)
    seen: Counter[str] = Counter()
    with ShareConsumer(name, **options(bootstrap, share_group, max_poll_records=7)) as consumer:
        while len(seen) < 40:
            records = consumer.poll(timeout_ms=10_000)
            seen.update(map(value, records))
            assert {each.delivery_count for each in records} <= {1}
        assert set(consumer.assignment()) == {TopicPartition(name, 0), TopicPartition(name, 1)}
        assert consumer.acquisition_lock_timeout_ms == LOCK_MS
    assert seen == Counter(map(str, range(40)))
    with ShareConsumer(name, **options(bootstrap, share_group)) as consumer:
        assert nothing_comes(consumer), "the close has accepted the last ones"


def test_iteration_accepts_each_record_and_a_failure_releases_the_rest(
    bootstrap: str, topic: MakeTopic, share_group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, "a", "b", "c", "d")

    def work() -> None:
        with ShareConsumer(name, **options(bootstrap, share_group)) as consumer:
            for record in consumer:
                if value(record) == "c":
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    with ShareConsumer(name, **options(bootstrap, share_group)) as consumer:
        assert [value(each) for each in polled(consumer, 2)] == ["c", "d"]


def test_each_record_can_be_accepted_released_or_rejected(
    bootstrap: str, topic: MakeTopic, share_group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, "a", "release", "reject", "b")
    told: list[tuple[list[int], KohortError | None]] = []

    def on_acknowledged(offsets: Any, error: KohortError | None) -> None:
        told.append((sorted(at for each in offsets.values() for at in each), error))

    with ShareConsumer(name, on_acknowledged=on_acknowledged, **explicit(bootstrap, share_group)) as consumer:
        types = {"release": RELEASE, "reject": REJECT}
        for record in polled(consumer, 4):
            consumer.acknowledge(record, types.get(value(record), ACCEPT))
        (again,) = polled(consumer, 1)
        assert (value(again), again.delivery_count) == ("release", 2)
        wait_until(lambda: [at for each in told for at in each[0]] == [0, 1, 2, 3], "the poll has told")
        consumer.acknowledge(again)
        consumer.commit()
        assert told[-1] == ([1], None)
        assert {error for _, error in told} == {None}
        with pytest.raises(NotAcquiredError):
            consumer.acknowledge(again)
        assert nothing_comes(consumer)


def test_an_unacknowledged_record_is_redelivered_and_a_late_acknowledgement_is_refused(
    bootstrap: str, topic: MakeTopic, share_group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, "slow")
    with (
        ShareConsumer(name, **explicit(bootstrap, share_group)) as slow,
        ShareConsumer(name, **explicit(bootstrap, share_group)) as other,
    ):
        (record,) = polled(slow, 1)
        (again,) = polled(other, 1)
        assert again.delivery_count == 2
        slow.acknowledge(record)
        with pytest.raises(ItemsError) as caught:
            slow.commit()
        assert caught.value.code is ErrorCode.INVALID_RECORD_STATE
        other.acknowledge(again)
        other.commit()


@only_mixed
def test_a_renewed_record_is_not_redelivered(bootstrap: str, topic: MakeTopic, share_group: str) -> None:
    name = topic(1)
    produce(bootstrap, name, "long")
    with (
        ShareConsumer(name, **explicit(bootstrap, share_group)) as consumer,
        ShareConsumer(name, **explicit(bootstrap, share_group)) as other,
    ):
        (record,) = polled(consumer, 1)
        began_s = time.monotonic()
        while time.monotonic() - began_s < 1.3 * LOCK_MS / 1000:
            consumer.acknowledge(record, RENEW)
            consumer.commit()
            assert nothing_comes(other, LOCK_MS // 4), "it is still the first one's"
        consumer.acknowledge(record)
        consumer.commit()
        assert nothing_comes(other, LOCK_MS + 200)


def test_background_commits_are_reported_later(bootstrap: str, topic: MakeTopic, share_group: str) -> None:
    name = topic(1)
    produce(bootstrap, name, "a", "b")
    told: list[int] = []
    with ShareConsumer(
        name,
        on_acknowledged=lambda offsets, error: told.extend(*offsets.values()),
        **options(bootstrap, share_group),
    ) as consumer:
        assert len(polled(consumer, 2)) == 2
        consumer.commit_async()
        assert told == [], "callbacks run within calls alone"
        wait_until(lambda: consumer.poll(timeout_ms=20) == [] and told == [0, 1], "a poll tells")


@both_loops
def test_the_asynchronous_share_consumer(
    bootstrap: str, topic: MakeTopic, share_group: str, loop: str
) -> None:
    name = topic(2)
    seen: list[str] = []
    told: list[int] = []

    async def on_acknowledged(offsets: Any, error: KohortError | None) -> None:
        await anyio.sleep(0)
        assert error is None
        told.extend(at for each in offsets.values() for at in each)

    async def main() -> None:
        async with aio.Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(20):
                await (await producer.send(name, b"%d" % number, partition=number % 2))
        with anyio.fail_after(30):
            async with aio.ShareConsumer(
                name, on_acknowledged=on_acknowledged, **options(bootstrap, share_group)
            ) as consumer:
                async for record in consumer:
                    seen.append(value(record))
                    if len(seen) == 20:
                        break
            async with aio.ShareConsumer(name, **explicit(bootstrap, share_group)) as consumer:
                assert await consumer.poll(timeout_ms=500) == []

    anyio.run(main, backend=loop)
    assert sorted(map(int, seen)) == list(range(20))
    assert len(told) == 20


def test_records_of_a_killed_member_are_redelivered(
    bootstrap: str, topic: MakeTopic, share_group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, "a", "b", "c")
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, bootstrap, share_group, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert victim.stdout is not None
    assert int(victim.stdout.readline()) > 0
    victim.kill()
    victim.communicate()
    with ShareConsumer(name, **explicit(bootstrap, share_group)) as consumer:
        found = polled(consumer, 3)
        assert [value(each) for each in found] == ["a", "b", "c"]
        for each in found:
            consumer.acknowledge(each)


@only_mixed
def test_many_members_share_one_partition(bootstrap: str, topic: MakeTopic, share_group: str) -> None:
    name = topic(1)
    settings = options(bootstrap, share_group, max_poll_records=5, share_acquire_mode="record_limit")
    seen: list[Counter[str]] = [Counter(), Counter(), Counter()]
    with (
        ShareConsumer(name, **settings) as a,
        ShareConsumer(name, **settings) as b,
        ShareConsumer(name, **settings) as c,
    ):
        members = (a, b, c)
        for each in members:
            each.poll(timeout_ms=500)
        produce(bootstrap, name, *map(str, range(60)))
        deadline_s = time.monotonic() + 20
        while sum(each.total() for each in seen) < 60 and time.monotonic() < deadline_s:
            for member, counts in zip(members, seen, strict=True):
                counts.update(map(value, member.poll(timeout_ms=50)))
    assert sum(seen, Counter()) == Counter(map(str, range(60))), "each once"
    assert all(seen), "each member had some of the one partition"


def test_a_record_that_can_not_be_read_is_an_error_and_the_others_go_on(
    bootstrap: str, topic: MakeTopic, share_group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, "1", "x", "3")
    with ShareConsumer(name, value_deserializer=int, **explicit(bootstrap, share_group)) as consumer:
        first: list[ShareRecord[bytes, int]] = []
        wait_until(lambda: first.extend(consumer.poll(timeout_ms=200)) or first, "the first")  # type: ignore[func-returns-value]
        with pytest.raises(DeserializationError) as caught:
            consumer.poll(timeout_ms=5_000)
        consumer.acknowledge(cast("ShareRecord[bytes, int]", caught.value.record), REJECT)
        last = consumer.poll(timeout_ms=5_000)
        assert [each.value for each in (*first, *last)] == [1, 3]
        for each in (*first, *last):
            consumer.acknowledge(each)
        consumer.commit()
        assert consumer.poll(timeout_ms=500) == []


def test_a_subscription_can_change_to_another_topic(
    bootstrap: str, topic: MakeTopic, share_group: str
) -> None:
    one, two = topic(1), topic(1)
    produce(bootstrap, one, "one")
    produce(bootstrap, two, "two")
    with ShareConsumer(one, **options(bootstrap, share_group)) as consumer:
        assert [value(each) for each in polled(consumer, 1)] == ["one"]
        consumer.subscribe(two)
        assert [value(each) for each in polled(consumer, 1)] == ["two"]
        consumer.unsubscribe()
        with pytest.raises(ConfigurationError, match="nothing to read"):
            consumer.poll(timeout_ms=10)
        consumer.subscribe(one)
        assert nothing_comes(consumer)


def test_polling_without_waiting_returns_records(bootstrap: str, topic: MakeTopic, share_group: str) -> None:
    name = topic(1)
    produce(bootstrap, name, "a", "b")
    with ShareConsumer(name, **options(bootstrap, share_group)) as consumer:
        seen: list[str] = []
        wait_until(
            lambda: seen.extend(map(value, consumer.poll(timeout_ms=0))) or seen == ["a", "b"],  # type: ignore[func-returns-value]
            "both",
        )


def test_a_share_consumer_can_share_a_connection(bootstrap: str, topic: MakeTopic, share_group: str) -> None:
    name = topic(2)
    with ClusterConnection(bootstrap_servers=bootstrap) as cluster:
        with Producer(cluster=cluster) as producer:
            for number in range(6):
                producer.send(name, b"%d" % number, partition=number % 2)
        with ShareConsumer(name, cluster=cluster, group_id=share_group) as consumer:
            seen: set[str] = set()
            wait_until(
                lambda: seen.update(map(value, consumer.poll(timeout_ms=100))) or len(seen) == 6,  # type: ignore[func-returns-value]
                "all",
            )


def test_a_poll_can_be_woken_and_a_missing_setting_is_named(bootstrap: str, group: str) -> None:
    with ShareConsumer("nothing-here", **options(bootstrap, group)) as consumer:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll()
        with pytest.raises(ConfigurationError, match="share_acknowledgement_mode='explicit'"):
            consumer.acknowledge(ShareRecord("t", 0, 0, 0, None, None))
        assert "share group" in repr(consumer)
    with pytest.raises(ConfigurationError, match="give a group_id"):
        ShareConsumer("t", bootstrap_servers=bootstrap)
