"""Clients as they are printed, and what is said to the habits of other clients."""

import pytest

import kohort.client
from kohort.client import (
    Admin,
    Consumer,
    ConsumerRecord,
    Producer,
    RebalanceListener,
    TimestampType,
    TopicPartition,
    aio,
)
from kohort.client.batch import Batch
from kohort.client.blocking.producer import Delivery
from kohort.client.errors import NetworkError
from kohort.client.workers import AsyncWorkerPool, WorkerPool

NOBODY = "127.0.0.1:1"


def test_the_repr_of_a_consumer_shows_its_subscription() -> None:
    with Consumer("a", "b", bootstrap_servers=NOBODY, group_id="g", enable_auto_commit=False) as consumer:
        assert repr(consumer) == f"<Consumer of a, b in group 'g' with 0 partition(s) at {NOBODY}>"
    assert repr(consumer).startswith("<closed Consumer of a, b in group 'g'")
    alone = aio.Consumer(bootstrap_servers=[NOBODY, "h:2"])
    assert repr(alone) == f"<aio.Consumer of 0 partition(s) at {NOBODY},h:2>"


def test_a_producer_and_an_admin_show_where_they_are() -> None:
    with Producer(bootstrap_servers=NOBODY) as producer, Admin(bootstrap_servers=NOBODY) as admin:
        assert repr(producer) == f"<Producer to {NOBODY}, 0 bytes in flight>"
        assert repr(admin) == f"<Admin of {NOBODY}>"
    assert repr(producer).startswith("<closed Producer")
    assert repr(admin).startswith("<closed Admin")
    assert repr(aio.Producer(bootstrap_servers=NOBODY)) == f"<aio.Producer to {NOBODY}, 0 bytes in flight>"


def test_a_pool_shows_its_work() -> None:
    async def handle(record: ConsumerRecord) -> None: ...

    pool = WorkerPool("t", handler=print, workers=3, group_id="g", bootstrap_servers=NOBODY)
    assert repr(pool) == "<WorkerPool of 3 for t in group 'g', 0 record(s) waiting>"
    other = AsyncWorkerPool("t", handler=handle, workers=3, group_id="g", bootstrap_servers=NOBODY)
    assert repr(other) == "<AsyncWorkerPool of 3 for t in group 'g', 0 record(s) waiting>"


def test_the_repr_of_a_delivery_shows_its_result() -> None:
    def of(batch: Batch) -> str:
        return repr(Delivery(batch, 1, 0))

    batch = Batch(TopicPartition("t", 0), 0)
    assert of(batch) == "<Delivery to t-0, on its way>"
    batch.base_offset = 4
    batch.finish()
    assert of(batch) == "<Delivery to t-0, written at offset 5>"
    failed = Batch(TopicPartition("t", 0), 0)
    failed.finish(NetworkError("broken"))
    assert of(failed) == "<Delivery to t-0, failed: broken>"


def test_a_record_as_a_dictionary_and_its_headers_by_name() -> None:
    record = ConsumerRecord("t", 0, 5, 1_000, b"k", b"v", (("a", b"1"), ("b", None), ("a", b"2")), 3)
    assert (record.header("a"), record.header("b"), record.header("c")) == (b"2", None, None)
    assert record._asdict() == {
        "topic": "t",
        "partition": 0,
        "offset": 5,
        "timestamp_ms": 1_000,
        "key": b"k",
        "value": b"v",
        "headers": (("a", b"1"), ("b", None), ("a", b"2")),
        "leader_epoch": 3,
        "timestamp_type": TimestampType.CREATE_TIME,
    }


def test_the_version_is_there() -> None:
    assert kohort.client.__version__.count(".") == 2


def test_a_poll_in_seconds_is_refused_with_the_right_call() -> None:
    with (
        Consumer(bootstrap_servers=NOBODY) as consumer,
        pytest.raises(TypeError, match=r"poll\(timeout_ms=1_000\)"),
    ):
        consumer.poll(1.0)  # type: ignore[arg-type]  # As confluent-kafka has it.


async def test_an_asynchronous_poll_of_seconds_is_refused_too() -> None:
    consumer = aio.Consumer(bootstrap_servers=NOBODY)
    with pytest.raises(TypeError, match=r"poll\(timeout_ms=1_000\)"):
        await consumer.poll(1.0)  # type: ignore[arg-type]  # As above.


@pytest.mark.parametrize("kind", [Consumer, Producer, Admin, aio.Consumer, aio.Producer, aio.Admin])
def test_settings_in_a_dictionary_are_refused_with_the_right_form(kind: type) -> None:
    with pytest.raises(TypeError, match=r"by name|has a name"):
        kind({"bootstrap.servers": NOBODY})


class OtherListener:
    """As kafka-python has it."""

    def on_partitions_revoked(self, revoked: object) -> None: ...

    def on_partitions_assigned(self, assigned: object) -> None: ...


@pytest.mark.parametrize("listener", [OtherListener(), print])
def test_a_listener_of_another_client_is_refused_at_once(listener: object) -> None:
    words = "on_assigned, on_revoked and on_lost"
    for kind in (Consumer, aio.Consumer):
        with pytest.raises(TypeError, match=words):
            kind("t", bootstrap_servers=NOBODY, group_id="g", listener=listener)  # type: ignore[arg-type]
    with Consumer(bootstrap_servers=NOBODY, group_id="g", enable_auto_commit=False) as consumer:
        with pytest.raises(TypeError, match=words):
            consumer.subscribe("t", listener=listener)  # type: ignore[arg-type]  # That is what is tested.
        consumer.subscribe("t", listener=RebalanceListener())
