"""Arguments in a list, by the habit of other clients, are refused with a word on how to give them."""

import pytest

from kohort.client import Admin, Consumer, NewTopic, TopicPartition
from kohort.client.arguments import one_by_one

NOBODY = "127.0.0.1:1"
FIRST = TopicPartition("orders", 0)


def test_arguments_that_are_given_one_by_one_come_back() -> None:
    assert one_by_one(iter(("a", "b")), str, "subscribe") == ("a", "b")
    assert one_by_one((), str, "subscribe") == ()


def test_a_list_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(TypeError, match=r"as f\(a, b\) or f\(\*several\), not in a list: \['a'\]"):
        one_by_one((["a"],), str, "f")


@pytest.mark.parametrize(
    "call", ["assign", "pause", "resume", "seek_to_beginning", "seek_to_end", "committed"]
)
def test_a_consumer_takes_no_list_of_partitions(call: str) -> None:
    with Consumer(bootstrap_servers=NOBODY) as consumer, pytest.raises(TypeError, match=rf"{call}\(a, b\)"):
        getattr(consumer, call)([FIRST])


def test_a_consumer_takes_no_list_of_topics() -> None:
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
def test_an_admin_takes_no_list(call: str, given: object) -> None:
    with Admin(bootstrap_servers=NOBODY) as admin, pytest.raises(TypeError, match=rf"{call}\(a, b\)"):
        getattr(admin, call)([given])
