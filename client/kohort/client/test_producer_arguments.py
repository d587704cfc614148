"""What a user of another client, or of none yet, gives a producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from kohort.client import Producer, RequestTimeoutError, TransactionStateError, aio
from kohort.client.batch import Batch
from kohort.client.blocking.producer import Delivery
from kohort.client.producer import Delivery as AsyncDelivery
from tests.client.steps import LONG_MS

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "topic, message",
    [
        (None, "a topic's name is text, not NoneType"),
        (b"t", "a topic's name is text, not bytes: b't'"),
        (5, "a topic's name is text, not int"),
        ("", "a topic's name is empty"),
    ],
)
def test_an_invalid_topic_name_is_refused_at_once(topic: str, message: str) -> None:
    calls: tuple[Callable[[Producer], object], ...] = (
        lambda producer: producer.send(topic, b""),
        lambda producer: producer.partitions_for(topic),
    )
    with Producer(bootstrap_servers=NOWHERE, max_block_ms=LONG_MS) as producer:
        for call in calls:
            with pytest.raises((TypeError, ValueError), match=message):
                call(producer)


def test_result_accepts_a_timeout_like_every_future() -> None:
    with Producer(
        bootstrap_servers=NOWHERE, linger_ms=0, request_timeout_ms=100, delivery_timeout_ms=1_000
    ) as producer:
        producer._session.accumulator.learn("t", 1)
        delivery = producer.send("t", b"")
        calls: tuple[Callable[[], object], ...] = (
            lambda: delivery.result(0.01),
            lambda: delivery.result(timeout=0.01),
            lambda: delivery.result(timeout_s=0.01),
            lambda: delivery.result(timeout_ms=10),
        )
        for call in calls:
            with pytest.raises(RequestTimeoutError, match=r"not known in 0\.01 s"):
                call()
        with pytest.raises(RequestTimeoutError, match="delivery_timeout_ms"):
            delivery.result()


@pytest.mark.parametrize(
    "value, advice",
    [
        ("text", "not str; encode it: value=text.encode()"),
        ({"a": 1}, "not dict; give the producer a value_serializer, such as lambda value: json.dumps"),
        (5, "not int; give the producer a value_serializer$"),
    ],
)
def test_a_value_that_is_no_bytes_is_refused_with_advice(value: Any, advice: str) -> None:
    with Producer(bootstrap_servers=NOWHERE) as producer:
        producer._session.accumulator.learn("t", 1)
        with pytest.raises(TypeError, match=advice):
            producer.send("t", value)


def test_a_deliverys_names_in_other_clients_are_answered_with_the_name_here() -> None:
    for kind in (Delivery, AsyncDelivery):
        delivery: Any = kind(cast(Batch, None), 0, 0)
        for name, here in (("get", "result"), ("add_callback", "add_done_callback"), ("done", "is_done")):
            with pytest.raises(AttributeError, match=f"no attribute {name!r}: here it is {here!r}"):
                getattr(delivery, name)
        assert not hasattr(delivery, "__dict__"), "there is one for each record"


def test_a_record_outside_a_transaction_is_refused_with_the_call_that_begins_one() -> None:
    with Producer(bootstrap_servers=NOWHERE, transactional_id="new") as producer:
        producer._session.accumulator.learn("t", 1)
        with pytest.raises(TransactionStateError, match="no transaction is open; call begin_transaction"):
            producer.send("t", b"")


@pytest.mark.parametrize(
    "name, here",
    [
        ("produce", "here it is 'send'"),
        ("poll", r"here it is 'send\(..., on_delivery=...\)'"),
        ("commit", "here it is 'commit_transaction'"),
        ("initTransactions", "here it is 'init_transactions'"),
        ("sendOffsetsToTransaction", "here it is 'send_offsets'"),
        ("partitionsFor", "here it is 'partitions_for'"),
        ("send_and_wait", "here it is 'send'"),
        ("whatever", "has no attribute 'whatever'$"),
    ],
)
def test_method_names_of_other_clients_are_answered_with_the_name_here(name: str, here: str) -> None:
    with Producer(bootstrap_servers=NOWHERE) as producer:
        for each in (producer, aio.Producer(bootstrap_servers=NOWHERE)):
            with pytest.raises(AttributeError, match=here):
                getattr(each, name)
        with pytest.raises(AttributeError, match="here it is 'close'"):
            getattr(producer, "stop")  # noqa: B009  # There is none.
    with pytest.raises(AttributeError, match="here it is 'stop'"):
        getattr(aio.Producer(bootstrap_servers=NOWHERE), "close")  # noqa: B009
