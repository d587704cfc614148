"""The compiled codec and the construct form, held against each other for every message and version."""

from collections.abc import Callable, Iterator
from functools import partial
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.protocol import constructs
from kohort.protocol.compiler import fields_in
from kohort.protocol.errors import EncodeError, WireError
from kohort.protocol.schema import Field, Message
from tests.messages import EVERY_MESSAGE, Random, random_message, versions_of
from tests.repetitions import repetitions

Wrap = Callable[[Message], Message]

every_message = pytest.mark.parametrize("cls", EVERY_MESSAGE, ids=lambda cls: cls.__name__)
randoms = st.randoms(use_true_random=False)
few = settings(max_examples=repetitions(4, by_night=40))
fewer = settings(few, max_examples=repetitions(2, by_night=20))


def every_version(test: Callable[[type[Message], int], None]) -> Callable[[type[Message]], None]:
    """Make it one test a message that tries all versions: 2,170 tests would cost more than what they try."""

    def of_all_versions(cls: type[Message]) -> None:
        for version in versions_of(cls):
            try:
                test(cls, version)
            except Exception as error:
                error.add_note(f"in version {version}")
                raise

    of_all_versions.__name__ = test.__name__
    marked: Callable[[type[Message]], None] = every_message(of_all_versions)
    return marked


@every_message
@few
@given(random=randoms)
def test_a_message_survives_its_encoding_and_construct_agrees_on_the_bytes(
    cls: type[Message], random: Random
) -> None:
    for version in versions_of(cls):
        message = random_message(cls, version, random)
        data = message.encode(version)
        assert cls.decode(data, version) == message
        assert constructs.build(message, version) == data
        assert constructs.parse(cls, data, version) == message


@every_message
@fewer
@given(random=randoms, behind=st.binary(min_size=1, max_size=4))
def test_bytes_after_a_message_are_refused_unless_allowed(
    cls: type[Message], random: Random, behind: bytes
) -> None:
    for version in versions_of(cls):
        message = random_message(cls, version, random)
        data = message.encode(version) + behind
        with pytest.raises(WireError, match="bytes too many"):
            cls.decode(data, version)
        with pytest.raises(WireError, match="bytes too many"):
            constructs.parse(cls, data, version)
        assert cls.decode(data, version, exact=False) == message


@every_message
@fewer
@given(random=randoms)
def test_every_kind_of_buffer_and_pieces_give_the_same(cls: type[Message], random: Random) -> None:
    for version in versions_of(cls):
        message = random_message(cls, version, random)
        data = message.encode(version)
        pieces = message.encode_parts(version)
        assert b"".join(each for each in pieces if isinstance(each, bytes)) == data
        assert cls.decode(bytearray(data), version) == message
        assert cls.decode(memoryview(data), version) == message


@every_message
@few
@given(random=randoms)
def test_a_message_that_is_cut_short_is_refused(cls: type[Message], random: Random) -> None:
    version = random.choice(versions_of(cls))
    data = random_message(cls, version, random).encode(version)
    for size in {0, len(data) // 2, len(data) - 1, *(random.randrange(len(data) + 1) for _ in range(5))}:
        if 0 <= size < len(data):
            for exact in (True, False):
                with pytest.raises(WireError):
                    cls.decode(data[:size], version, exact=exact)
            with pytest.raises(WireError):
                constructs.parse(cls, data[:size], version)


@every_version
def test_a_field_that_the_version_lacks_is_ignorable_or_refused(cls: type[Message], version: int) -> None:
    for struct, wrapped in _nestings(cls, version):
        plain = _plainest(struct, version)
        for field in struct.declaration().fields:
            if version in field.versions:
                continue
            loaded = wrapped(_with(plain, field, _other_than_default(field)))
            if field.ignorable:
                without = wrapped(plain).encode(version)
                assert loaded.encode(version) == constructs.build(loaded, version) == without
                continue
            refusal = f"{struct.__name__}.{field.name} is not in version {version}"
            with pytest.raises(EncodeError, match=refusal):
                loaded.encode(version)
            with pytest.raises(EncodeError, match=refusal):
                constructs.build(loaded, version)


@every_version
def test_null_is_refused_where_the_version_has_none(cls: type[Message], version: int) -> None:
    plain = _plainest(cls, version)
    fields, tagged = fields_in(cls, version)
    for field in (*fields, *tagged):
        can_be_null = field.wire.name in ("string", "bytes", "array") or version in field.nullable
        if not can_be_null:
            continue
        nothing = _with(plain, field, None)
        if version in field.nullable:
            assert getattr(cls.decode(nothing.encode(version), version), field.name) is None
        else:
            with pytest.raises(EncodeError, match="null"):
                nothing.encode(version)
            with pytest.raises(EncodeError, match="null"):
                constructs.build(nothing, version)


@every_version
def test_null_and_empty_are_two_values(cls: type[Message], version: int) -> None:
    plain = _plainest(cls, version)
    fields, tagged = fields_in(cls, version)
    for field in (*fields, *tagged):
        if version in field.nullable and field.wire.name != "struct":
            empty: object = {"string": "", "bytes": b"", "records": b"", "array": ()}[field.wire.name]
            both = [_with(plain, field, each).encode(version) for each in (None, empty)]
            assert both[0] != both[1]
            assert [getattr(cls.decode(each, version), field.name) for each in both] == [None, empty]


@every_version
def test_tagged_fields_at_their_defaults_are_not_written(cls: type[Message], version: int) -> None:
    if version not in cls.declaration().flexible:
        return
    plain = _plainest(cls, version)
    data = plain.encode(version)
    assert data[-1] == 0  # The count of tagged fields, which end the body.
    for field in fields_in(cls, version)[1]:
        loaded = _with(plain, field, _other_than_default(field)).encode(version)
        assert (loaded[len(data) - 1], loaded[len(data)]) == (1, field.tag)


@every_version
def test_unknown_tagged_fields_are_skipped(cls: type[Message], version: int) -> None:
    if version not in cls.declaration().flexible:
        return
    plain = _plainest(cls, version)
    unknown = b"\x02" + b"\x63\x03abc" + b"\xf4\x03\x00"  # Tag 99 with three bytes, tag 500 with none.
    data = plain.encode(version)[:-1] + unknown
    assert cls.decode(data, version) == constructs.parse(cls, data, version) == plain


@every_message
def test_a_version_that_was_not_declared_is_the_callers_mistake(cls: type[Message]) -> None:
    for version in (versions_of(cls).start - 1, versions_of(cls).stop):
        with pytest.raises(ValueError, match="has versions"):
            cls.decode(b"", version)
        with pytest.raises(ValueError, match="has versions"):
            cls().encode(version)
        with pytest.raises(ValueError, match="has versions"):
            constructs.construct_of(cls, version)


def _plainest(cls: type[Message], version: int) -> Message:
    """Return the message of defaults, with nulls replaced where the version has none."""
    fields = [each for group in fields_in(cls, version) for each in group]
    values: dict[str, object] = {}
    for each in fields:
        if each.default is None and version not in each.nullable:
            values[each.name] = each.wire.default if each.struct is None else _plainest(each.struct, version)
    return cls(**values)


def _nestings(cls: type[Message], version: int) -> Iterator[tuple[type[Message], Wrap]]:
    """Yield `cls` and each struct inside it, with what puts such a struct into a whole message."""
    yield cls, lambda inner: inner
    for field in (each for group in fields_in(cls, version) for each in group):
        if field.struct is not None:
            for struct, wrap in _nestings(field.struct, version):
                yield struct, partial(_wrapped, cls, version, field, wrap)


def _wrapped(cls: type[Message], version: int, field: Field, wrap: Wrap, inner: Message) -> Message:
    value = wrap(inner)
    return _with(_plainest(cls, version), field, (value,) if field.wire.name == "array" else value)


def _with(message: Message, field: Field, value: object) -> Message:
    values = {each.name: getattr(message, each.name) for each in type(message).declaration().fields}
    return type(message)(**values | {field.name: value})


def _other_than_default(field: Field) -> object:
    """Return a value that is not the default of the field."""
    if field.wire.name == "array":
        return (field.struct() if field.struct else _filled(field.element.name if field.element else ""),)
    if field.struct is None:
        return field.default is False if field.wire.name == "bool" else _filled(field.wire.name)
    if field.default is None:
        return field.struct()
    first = field.struct.declaration().fields[0]
    return _with(field.struct(), first, _other_than_default(first))


def _filled(wire_name: str) -> object:
    return {"string": "x", "bytes": b"x", "records": b"x", "uuid": UUID(int=7)}.get(wire_name, 7)
