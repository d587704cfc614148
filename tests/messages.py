"""Messages for the tests, the fuzzers and the benchmarks: random ones of every class and version.

Whoever calls brings the `Random`: a seeded one gives the same messages again, Hypothesis's own
(`strategies.randoms()`) gives messages that shrink.
"""

from random import Random
from typing import TypeVar
from uuid import UUID

from kohort.protocol import (
    consumer,
    consumer_group_records,
    headers,
    offsets_topic,
    share_group_records,
    share_state_log,
    streams_group_records,
    transaction_log,
)
from kohort.protocol.registry import EVERY_API
from kohort.protocol.schema import Field, Message, Wire

__all__ = ["EVERY_MESSAGE", "Random", "message_of", "random_message", "versions_of"]

M = TypeVar("M", bound=Message)

EVERY_MESSAGE: tuple[type[Message], ...] = (
    *(cls for api in EVERY_API.values() for cls in (api.request, api.response)),
    headers.RequestHeader,
    headers.ResponseHeader,
    consumer.ConsumerProtocolSubscription,
    consumer.ConsumerProtocolAssignment,
    offsets_topic.OffsetCommitKey,
    offsets_topic.OffsetCommitValue,
    offsets_topic.GroupMetadataKey,
    offsets_topic.GroupMetadataValue,
    transaction_log.TransactionLogKey,
    transaction_log.TransactionLogValue,
    *(cls for pair in consumer_group_records.RECORDS.values() for cls in pair),
    *(cls for pair in share_group_records.RECORDS.values() for cls in pair),
    *(cls for pair in streams_group_records.RECORDS.values() for cls in pair),
    *(cls for pair in share_state_log.RECORDS.values() for cls in pair),
)

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
CHARACTERS = "aZ9-._ \0é߿€￿\N{GRINNING FACE}"  # one to four bytes of UTF-8 each
LENGTHS = (0, 1, 1, 2, 5, 9)
LONG_LENGTHS = (126, 127, 128, 300)  # 127 is the first whose compact length takes two bytes.
LONG_ONE_IN = 20
COUNTS = (0, 1, 1, 2)
DEFAULT_ONE_IN = 5  # Every so often a field stands at its default: tagged ones are not written then.
NULL_ONE_IN = 4
MANY = 130  # elements: a compact count of two bytes


def versions_of(cls: type[Message]) -> range:
    """Return every version that `cls` declares."""
    lowest, highest = cls.declaration().versions
    return range(lowest, highest + 1)


def message_of(cls: type[M], **values: object) -> M:
    """Return a message of which only `values` are not at their defaults.

    At run time every field has a default; type checkers ask for all that a message needs.
    """
    return cls(**values)


def random_message(cls: type[M], version: int, random: Random) -> M:
    """Return a message that `version` can carry: what that version lacks stands at its default."""
    values: dict[str, object] = {}
    for field in cls.declaration().fields:
        if version in field.versions and random.randrange(DEFAULT_ONE_IN):
            values[field.name] = _value(field, version, random)
    made = cls(**values)
    return _without_forbidden_nulls(made, version, random)


def _without_forbidden_nulls(message: M, version: int, random: Random) -> M:
    """Return the message with a value where the default is null and the version has no null."""
    fields = type(message).declaration().fields
    wrong = [
        each
        for each in fields
        if version in each.versions and version not in each.nullable and getattr(message, each.name) is None
    ]
    if not wrong:
        return message
    values = {each.name: getattr(message, each.name) for each in fields}
    return type(message)(**values | {each.name: _value(each, version, random) for each in wrong})


def _value(field: Field, version: int, random: Random) -> object:
    if version in field.nullable and not random.randrange(NULL_ONE_IN):
        return None
    if field.wire.name == "array":
        return tuple(_element(field, version, random) for _ in range(_count(field, random)))
    if field.struct is not None:
        return random_message(field.struct, version, random)
    return _simple(field.wire, random)


def _count(field: Field, random: Random) -> int:
    many = field.element is not None and not random.randrange(LONG_ONE_IN)
    return MANY if many else random.choice(COUNTS)


def _element(field: Field, version: int, random: Random) -> object:
    if field.struct is not None:
        return random_message(field.struct, version, random)
    assert field.element is not None
    return _simple(field.element, random)


def _simple(wire: Wire, random: Random) -> object:
    if wire.name in BITS:
        return _signed(BITS[wire.name], random)
    if wire.name == "bool":
        return bool(random.getrandbits(1))
    if wire.name == "uint16":
        return random.choice((0, 1, 0x7FFF, 0x8000, 0xFFFF, random.getrandbits(16)))
    if wire.name == "float64":
        return random.choice((0.0, -1.5, 1e300, random.random()))
    if wire.name == "uuid":
        return UUID(int=random.choice((0, 1, (1 << 128) - 1, random.getrandbits(128))))
    length = random.choice(LENGTHS if random.randrange(LONG_ONE_IN) else LONG_LENGTHS)
    if wire.name == "string":
        return _text(length, random)
    return random.getrandbits(8 * length).to_bytes(length, "big") if length else b""


def _signed(bits: int, random: Random) -> int:
    edge = 1 << (bits - 1)
    return random.choice((-edge, -1, 0, 1, edge - 1, random.getrandbits(bits) - edge))


def _text(length: int, random: Random) -> str:
    """Return text of up to `length` characters; a long one repeats a short one."""
    piece = "".join(random.choice(CHARACTERS) for _ in range(min(length, 6)))
    return (piece * (length // max(1, len(piece)) + 1))[:length]
