"""Arguments in the style of other clients, refused with an error that shows the right call."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Never, TypeVar

from kohort.client.values import ConsumerRecord, OffsetAndMetadata, TopicPartition

Argument = TypeVar("Argument")


def one_by_one(given: Iterable[Argument], kind: type, called: str) -> tuple[Argument, ...]:
    """Return the arguments. Raises: TypeError, which shows how several are given."""
    arguments = tuple(given)
    for each in arguments:
        if isinstance(each, Mapping):
            raise TypeError(
                f"settings are given by name: {called}(bootstrap_servers=...), not in a dictionary"
            )
        if not isinstance(each, kind):
            raise TypeError(
                f"{called} takes its arguments one by one, as {called}(a, b) or {called}(*several),"
                f" not in a {type(each).__name__}: {each!r}"
            )
    return arguments


def by_name_alone(given: tuple[object, ...], example: str) -> None:
    """Return if every argument has a name. Raises: TypeError with an example of the right call."""
    if given:
        raise TypeError(
            f"give these arguments by name, and times in milliseconds: {example}, not {given[0]!r}"
        )


def given_offsets(given: object, called: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets of partitions as they are committed; a number is an offset.

    Raises: TypeError, which shows the right form; ValueError for a negative offset.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{called} takes {_OFFSETS}, not {_named(given)}")
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for where, value in given.items():
        if not isinstance(where, tuple) or len(where) != 2:
            raise TypeError(f"{called} takes {_OFFSETS}; {where!r} is no TopicPartition")
        offset = OffsetAndMetadata(value) if type(value) is int else value
        if not isinstance(offset, OffsetAndMetadata):
            raise TypeError(f"{called} takes {_OFFSETS}; the offset of {where} is {_named(value)}")
        if offset.offset < 0:
            raise ValueError(f"{called}: the offset of {where} can't be {offset.offset}")
        found[TopicPartition(*where)] = offset
    return found


_OFFSETS = (
    "{TopicPartition(topic, partition): offset}, where the offset is a number or an OffsetAndMetadata: that"
    " of the next record to read"
)


def _named(given: object) -> str:
    """Return the given arguments as text; with the required type if that is clear."""
    if isinstance(given, ConsumerRecord):
        behind = f"{{TopicPartition({given.topic!r}, {given.partition}): {given.offset + 1}}}"
        return f"a record: the offset behind it is {behind}"
    if isinstance(given, list) and given and isinstance(given[0], ConsumerRecord):
        return "a list of records: what a poll returns is taken as a whole, a part of it is a plain list"
    name = type(given).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}: {given!r:.100}"


class OtherNames:
    """Tells the name here of a method that has another name in another client."""

    __slots__ = ()
    _called_here: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # For type checkers only existing methods can be called.

        def __getattr__(self, name: str) -> Never:
            kind = type(self)
            here = kind._called_here.get(name) or re.sub("(?<=[a-z])[A-Z]", r"_\g<0>", name).lower()
            hint = f": here it is {here!r}" if here != name and hasattr(kind, here.partition("(")[0]) else ""
            raise AttributeError(
                f"{kind.__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self
            )


CONSUMERS_METHODS = {
    "commitSync": "commit",
    "commit_sync": "commit",
    "consume": "poll",
    "getmany": "poll",
    "getone": "poll",
    "getMetadata": "list_topics",
    "topics": "list_topics",
    "listTopics": "list_topics",
    "list_consumer_group_offsets": "committed",
    "get_watermark_offsets": "end_offsets",
    "highwater": "end_offsets",
    "incremental_assign": "assign",
    "partitions_for_topic": "partitions_for",
    "store_offsets": "commit_async",
    "stop": "close",
    "memberid": "group_metadata",
    "consumer_group_metadata": "group_metadata",
    "groupMetadata": "group_metadata",
}
"""Of Java's, confluent-kafka's, kafka-python's and aiokafka's consumers, by the name that it has here."""


PRODUCERS_METHODS = {
    "produce": "send",
    "send_and_wait": "send",
    "poll": "send(..., on_delivery=...)",
    "begin": "begin_transaction",
    "commit": "commit_transaction",
    "abort": "abort_transaction",
    "send_offsets_to_transaction": "send_offsets",
    "sendOffsetsToTransaction": "send_offsets",
    "partitions_for_topic": "partitions_for",
}
"""Of Java's, confluent-kafka's, kafka-python's and aiokafka's producers, by the name that it has here."""


DELIVERYS_METHODS = {
    "get": "result",
    "add_callback": "add_done_callback",
    "add_errback": "add_done_callback",
    "done": "is_done",
}
"""Of kafka-python's and Python's futures, by the name that a delivery has for it."""


def checked_topic(topic: object) -> str:
    """Return the topic if it can be one's name. Raises: TypeError, ValueError."""
    if not isinstance(topic, str):
        raise TypeError(f"a topic's name is text, not {type(topic).__name__}: {topic!r:.100}")
    if not topic:
        raise ValueError("a topic's name is empty")
    return topic


def check_listener(listener: object) -> None:
    """Return if it has the methods of a rebalance listener. Raises: TypeError, which names them."""
    missing = [each for each in _HEARD if not callable(getattr(listener, each, None))]
    if missing:
        raise TypeError(
            f"a listener has on_assigned, on_revoked and on_lost, each of which takes the partitions: inherit"
            f" from RebalanceListener; {type(listener).__name__} lacks {', '.join(missing)}"
        )


_HEARD = ("on_assigned", "on_revoked", "on_lost")
