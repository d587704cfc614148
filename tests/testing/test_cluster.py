"""Several brokers in a test's process: what clients of a cluster live through, by order."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, Producer

from kohort.broker.config import ConfigError
from kohort.client import Consumer as KohortConsumer
from kohort.client import Producer as KohortProducer
from kohort.protocol.errors import ApiError
from kohort.testing import BrokerFailed, Cluster, ErrorCode


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 3}) as cluster:
        yield cluster


def producer_of(cluster: Cluster) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})


def consumer_of(cluster: Cluster, client_id: str = "billing") -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": client_id,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    return consumer


def read(consumer: Consumer, count: int) -> set[bytes]:
    values: list[bytes] = []
    for _ in range(600):
        if len(values) >= count:
            break
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            values.append(value)
    return set(values)


def test_every_partition_is_on_three_brokers_and_led_by_one(cluster: Cluster) -> None:
    assert len(cluster.bootstrap.split(",")) == 3
    assert {cluster.leader("orders", each).bootstrap for each in range(3)} <= set(
        cluster.bootstrap.split(",")
    )
    assert all(cluster.in_sync("orders", each) == {1, 2, 3} for each in range(3))


def test_a_new_topic_is_ready_when_the_slowest_leader_serves(cluster: Cluster) -> None:
    slow, go_on = cluster.brokers[3], threading.Event()
    with ThreadPoolExecutor(2) as threads:
        held = threads.submit(slow._core.call, lambda _: go_on.wait())
        try:
            created = threads.submit(cluster.create_topic, "new", 3)
            cluster.brokers[1].until(lambda: set(cluster._states("new")) == {0, 1, 2})
            with pytest.raises(TimeoutError):
                created.result(0.1)
        finally:
            go_on.set()
        held.result()
        created.result()
    for number, each in cluster.brokers.items():
        led = [index for index, state in cluster._states("new").items() if state.leader == number]
        each._core.call(lambda broker, led=led: [broker.partitions.serving("new", index) for index in led])


def test_a_leader_that_goes_away_costs_no_record_and_comes_back_in_sync(cluster: Cluster) -> None:
    producer = producer_of(cluster)
    for number in range(30):
        producer.produce("orders", str(number).encode(), partition=number % 3)
    assert producer.flush(20) == 0
    gone = cluster.leader("orders", 0)
    gone.stop()
    cluster.until(lambda: cluster.leader("orders", 0) is not gone)
    producer.produce("orders", b"meanwhile", partition=0)
    assert producer.flush(20) == 0
    assert len(cluster.records("orders")) == 31
    gone.start()
    cluster.until(lambda: cluster.in_sync("orders", 0) == {1, 2, 3})


def test_a_group_survives_its_coordinator(cluster: Cluster) -> None:
    producer, consumer = producer_of(cluster), consumer_of(cluster)
    producer.produce("orders", b"one")
    assert producer.flush(20) == 0
    assert read(consumer, 1) == {b"one"}
    consumer.commit(asynchronous=False)
    before = cluster.groups["readers"]
    cluster.coordinator("readers").stop()
    after = cluster.until(lambda: cluster.groups["readers"])
    assert (after.offsets, after.generation) == (before.offsets, before.generation)
    producer.produce("orders", b"two")
    assert producer.flush(20) == 0
    assert read(consumer, 1) == {b"two"}
    consumer.close()


def test_time_passes_for_all_of_them_and_nobody_falls_behind(cluster: Cluster) -> None:
    consumer = consumer_of(cluster)
    cluster.until(lambda: (consumer.poll(0.02), cluster.groups["readers"].state == "Stable")[1])
    cluster.clock.advance(seconds=46)
    group = cluster.groups["readers"]
    assert group.members == ()
    assert "a member missed its session timeout: billing" in group.rebalances[-1].cause
    with KohortProducer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("orders", value=b"after")
    assert cluster.in_sync("orders", 0) == {1, 2, 3}
    consumer.close()


def test_time_leaves_those_alone_who_are_named(cluster: Cluster) -> None:
    consumer = consumer_of(cluster, "alive")
    cluster.until(
        lambda: (consumer.poll(0.02), consumer.assignment())[1]
    )  # On every replica, not only stable.
    generation = cluster.groups["readers"].generation
    cluster.clock.advance(seconds=200, alive=["alive"])
    assert cluster.groups["readers"].generation == generation
    consumer.close()


def test_each_broker_fails_by_order_and_tells_what_it_saw(cluster: Cluster) -> None:
    leader = cluster.leader("orders", 1)
    leader.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    producer = producer_of(cluster)
    producer.produce("orders", b"one", partition=1)
    assert producer.flush(20) == 0
    assert leader.requests.of("Produce").errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert [each.value for each in cluster.records("orders")] == [b"one"]
    assert "broker 1: what the broker at" in cluster.report()


def test_too_few_replicas_in_sync_refuse_what_all_have_to_have() -> None:
    with Cluster(brokers=2, topics=["orders"], min_insync_replicas=2) as cluster:
        follower = next(each for each in cluster.brokers.values() if each is not cluster.leader("orders"))
        follower.stop()
        cluster.until(lambda: len(cluster.in_sync("orders")) == 1)
        heard: list[object] = []
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 1_000, "log_level": 0}
        )
        producer.produce("orders", b"one", on_delivery=lambda error, _: heard.append(error))
        producer.flush(10)
        assert heard
        assert ErrorCode.NOT_ENOUGH_REPLICAS in cluster.leader("orders").requests.of("Produce").errors
        follower.start()
        producer.produce("orders", b"two", on_delivery=lambda error, _: heard.append(error))
        assert producer.flush(20) == 0


def test_our_own_client_goes_on_through_a_restart_of_each_in_turn(cluster: Cluster) -> None:
    values: list[bytes] = []

    def consume() -> None:
        with KohortConsumer(
            "orders", bootstrap_servers=cluster.bootstrap, group_id="ours", auto_offset_reset="earliest"
        ) as consumer:
            for record in consumer:
                values.append(record.value)
                if record.value == b"end":
                    return

    reader = threading.Thread(target=consume, daemon=True)
    reader.start()
    with KohortProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number, broker in cluster.brokers.items():
            broker.stop()
            producer.send("orders", value=str(number).encode(), partition=0)
            broker.start()
            cluster.until(lambda: all(cluster.in_sync("orders", each) == {1, 2, 3} for each in range(3)))
        producer.send("orders", value=b"end", partition=0)
    reader.join(30)
    assert values == [b"1", b"2", b"3", b"end"]


OWN = ("kohort-broker", "kohort-metadata")


def own_threads() -> set[str]:
    """Return the threads of brokers and of their metadata. Brokers have pools besides, which come and go."""
    return {f"{each.name} {each.ident}" for each in threading.enumerate() if each.name.startswith(OWN)}


def test_mistakes_are_said_before_anything_starts(cluster: Cluster) -> None:
    threads = own_threads()
    assert len(threads) > len(cluster.brokers)
    with pytest.raises(ConfigError, match="1 broker or more"):
        Cluster(brokers=0)
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        Cluster(num_partition=4)
    assert own_threads() == threads
    with pytest.raises(ApiError):
        cluster.create_topic("no/slash")
    with pytest.raises(KeyError):
        cluster.leader("nosuch")
    for each in cluster.brokers.values():
        each.stop()
    with pytest.raises(BrokerFailed, match="no broker of this cluster is running"):
        cluster.records("orders")
    assert len(own_threads()) == len(threads) - len(cluster.brokers)


def test_nothing_of_it_is_left_when_it_is_closed() -> None:
    before = set(threading.enumerate())
    with Cluster(brokers=2):
        left = set(threading.enumerate()) - before
        assert len(left) > 2
    for each in left:
        each.join(10)  # Those that answered for the metadata see that nobody asks any more.
    assert not any(each.is_alive() for each in left)
