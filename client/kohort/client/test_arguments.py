"""Arguments by the habit of other clients are refused with a word on how to give them, and names as well."""

import threading
from collections.abc import Callable

import pytest

from kohort.client import Admin, Consumer, ConsumerRecord, NewTopic, OffsetAndMetadata, TopicPartition, aio
from kohort.client.arguments import given_offsets, one_by_one

NOBODY = "127.0.0.1:1"
FIRST = TopicPartition("orders", 0)


def test_arguments_given_one_by_one_are_returned() -> None:
    assert one_by_one(iter(("a", "b")), str, "subscribe") == ("a", "b")
    assert one_by_one((), str, "subscribe") == ()


def test_a_list_is_refused_with_the_right_call() -> None:
    with pytest.raises(TypeError, match=r"as f\(a, b\) or f\(\*several\), not in a list: \['a'\]"):
        one_by_one((["a"],), str, "f")


@pytest.mark.parametrize(
    "call", ["assign", "pause", "resume", "seek_to_beginning", "seek_to_end", "committed"]
)
def test_a_consumer_refuses_a_list_of_partitions(call: str) -> None:
    with Consumer(bootstrap_servers=NOBODY) as consumer, pytest.raises(TypeError, match=rf"{call}\(a, b\)"):
        getattr(consumer, call)([FIRST])


@pytest.mark.parametrize(
    "call",
    [lambda each: each.seek("orders", 0), lambda each: each.position("orders")],
    ids=["seek", "position"],
)
def test_a_consumer_refuses_a_topic_in_the_place_of_a_partition(call: Callable[[object], object]) -> None:
    with (
        Consumer(bootstrap_servers=NOBODY) as consumer,
        pytest.raises(TypeError, match=r"a partition is a TopicPartition\(topic, partition\), not 'orders'"),
    ):
        call(consumer)


def test_a_consumer_refuses_a_list_of_topics() -> None:
    with pytest.raises(TypeError, match=r"Consumer\(a, b\)"):
        Consumer(["orders"], bootstrap_servers=NOBODY, group_id="g")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("create_topics", NewTopic("orders")),
        ("delete_topics", "orders"),
        ("describe_topics", "orders"),
        ("describe_topic_partitions", "orders"),
        ("describe_groups", "readers"),
        ("delete_groups", "readers"),
    ],
)
def test_an_admin_client_refuses_a_list(call: str, given: object) -> None:
    with Admin(bootstrap_servers=NOBODY) as admin, pytest.raises(TypeError, match=rf"{call}\(a, b\)"):
        getattr(admin, call)([given])


def test_offsets_are_numbers_or_have_metadata() -> None:
    noted = OffsetAndMetadata(7, "noted")
    given = {FIRST: 30, ("orders", 1): noted}
    assert given_offsets(given, "commit") == {
        FIRST: OffsetAndMetadata(30),
        TopicPartition("orders", 1): noted,
    }


RECORD: ConsumerRecord = ConsumerRecord("orders", 0, 5, 0, b"k", b"v", ())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (5, "commit takes {TopicPartition(topic, partition): offset}"),
        ({FIRST: "30"}, "the offset of orders-0 is a str: '30'"),
        ({FIRST: True}, "the offset of orders-0 is a bool"),
        ({FIRST: None}, "the offset of orders-0 is a NoneType"),
        ({"orders-0": 30}, "'orders-0' is no TopicPartition"),
        (RECORD, "the offset behind it is {TopicPartition('orders', 0): 6}"),
        ([RECORD], "a part of it is a plain list"),
        (lambda: None, "a callback has a name"),
    ],
)
def test_an_invalid_commit_argument_is_refused_with_the_right_form(given: object, words: str) -> None:
    with Consumer(bootstrap_servers=NOBODY, group_id="g") as consumer:
        consumer.assign(FIRST)
        with pytest.raises(TypeError) as caught:
            consumer.commit_async(given)  # type: ignore[arg-type]  # That is what is tested.
        assert words in str(caught.value)


def test_a_negative_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="the offset of orders-0 can't be -1"):
        given_offsets({FIRST: -1}, "commit")


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("commitSync", "commit"),
        ("commitAsync", "commit_async"),
        ("seekToBeginning", "seek_to_beginning"),
        ("consume", "poll"),
        ("offsetsForTimes", "offsets_for_times"),
        ("partitions_for_topic", "partitions_for"),
    ],
)
@pytest.mark.parametrize("kind", [Consumer, aio.Consumer])
def test_a_method_name_of_another_client_is_answered_with_the_name_here(
    kind: type, name: str, here: str
) -> None:
    consumer = kind(bootstrap_servers=NOBODY)
    with pytest.raises(AttributeError, match=rf"has no attribute {name!r}: here it is {here!r}"):
        getattr(consumer, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'fly'$"):
        _ = consumer.fly
    if isinstance(consumer, Consumer):
        consumer.close()


def test_threads_are_named_after_their_group() -> None:
    with Consumer(bootstrap_servers=NOBODY, group_id="billing"):
        assert "kohort-consumer billing" in [each.name for each in threading.enumerate()]
