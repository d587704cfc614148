"""Compares the typed decoders with the decoders that are written at run time.

In a clone the typed modules run interpreted here; `make compiled` runs these tests over the compiled ones.
"""

import struct
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kohort.protocol import request_decoders
from kohort.protocol.declaring import message
from kohort.protocol.errors import WireError
from kohort.protocol.limits import MAX_ITEMS
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.metadata import MetadataRequest
from kohort.protocol.messages.produce import ProduceRequest, ProduceResponse
from kohort.protocol.request_decoders import decoder_of_buffers, readers
from kohort.protocol.request_decoders.module_writer import request_of, typed_module
from kohort.protocol.schema import Decoder, Int32, Int64, Message, MessageMeta, String, field
from tests.fuzz.wire import garbage, mutated
from tests.messages import Random, message_of, random_message, versions_of
from tests.repetitions import repetitions

IS_COMPILED = not (readers.__file__ or "").endswith(".py")
REQUESTS = tuple(map(request_of, request_decoders.APIS))

every_request = pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)
randoms = st.randoms(use_true_random=False)
few = settings(max_examples=repetitions(5, by_night=200))
_interpreted: dict[type[Message], dict[int, Decoder]] = {}


def typed_decoders(cls: type[Message]) -> dict[int, Decoder]:
    """Return the compiled decoders of a request, or in a clone the module that would be compiled."""
    if IS_COMPILED:
        return {each: cls.decoder(each) for each in versions_of(cls)}
    if cls not in _interpreted:
        scope: dict[str, Any] = {"__name__": f"typed_{cls.__name__}"}
        exec(compile(typed_module(cls), f"<{cls.__name__}>", "exec"), scope)
        _interpreted[cls] = scope["DECODERS"]
    return _interpreted[cls]


def outcome(decode: Decoder, data: bytes | bytearray | memoryview, *, exact: bool) -> Message | str:
    """Return the message, or the text of the WireError. Anything else that is raised fails the test."""
    try:
        return decode(data, exact)
    except WireError as error:
        return str(error)


def check_equal(cls: type[Message], version: int, data: bytes) -> Message | str:
    """Check that both decoders return the same message, or raise the same error. Return it."""
    for exact in (False, True):
        found = outcome(typed_decoders(cls)[version], data, exact=exact)
        assert found == outcome(decoder_of_buffers(cls, version), data, exact=exact)
    return found


@every_request
@few
@given(random=randoms)
def test_every_message_is_read(cls: type[Message], random: Random) -> None:
    for version in versions_of(cls):
        sent = random_message(cls, version, random)
        assert check_equal(cls, version, sent.encode(version)) == sent


@every_request
@few
@given(random=randoms)
def test_damaged_bytes_are_refused_with_the_same_words(cls: type[Message], random: Random) -> None:
    for version in versions_of(cls):
        data = random_message(cls, version, random).encode(version)
        check_equal(cls, version, data[: random.randrange(len(data) + 1)])
        check_equal(cls, version, mutated(data, random))
        check_equal(cls, version, garbage(random))


@every_request
def test_a_message_that_is_cut_is_refused(cls: type[Message]) -> None:
    for version in versions_of(cls):
        data = random_message(cls, version, Random(version)).encode(version)
        for size in range(0, len(data), max(1, len(data) // 50)):
            assert isinstance(check_equal(cls, version, data[:size]), str)


@every_request
@few
@given(random=randoms)
def test_other_buffers_are_read_too(cls: type[Message], random: Random) -> None:
    for version in versions_of(cls):
        sent = random_message(cls, version, random)
        data = sent.encode(version)
        for buffer in (bytearray(data), memoryview(data), memoryview(bytearray(data))):
            assert outcome(typed_decoders(cls)[version], buffer, exact=True) == sent
            assert outcome(typed_decoders(cls)[version], buffer[:-1], exact=True) == outcome(
                decoder_of_buffers(cls, version), buffer[:-1], exact=True
            )


def test_more_elements_than_allowed_are_refused() -> None:
    protocol = message_of(JoinGroupRequestProtocol, name="", metadata=b"")
    protocols = (protocol,) * (MAX_ITEMS + 1)
    data = message_of(JoinGroupRequest, protocols=protocols).encode(9)
    refused = f"JoinGroupRequest v9: more than {MAX_ITEMS} elements in all"
    assert check_equal(JoinGroupRequest, 9, data) == refused


def test_ids_of_the_same_hash_are_refused() -> None:
    partitions = (message_of(FetchPartition),)
    topics = tuple(
        message_of(FetchTopic, topic_id=UUID(int=each * (2**61 - 1) + 7), partitions=partitions)
        for each in range(1, 30)
    )
    data = message_of(FetchRequest, topics=topics).encode(13)
    assert check_equal(FetchRequest, 13, data) == "too many topic ids have the same hash"


@given(data=st.binary(max_size=12), position=st.integers(0, 12))
@example(data=b"\x80" + bytes(7), position=0)
@example(data=b"\xff" * 8, position=0)
@example(data=b"\x7f" + b"\xff" * 7, position=0)
def test_numbers_are_those_of_struct(data: bytes, position: int) -> None:
    for reader, letter in (
        (readers.boolean, "?"),
        (readers.int8, "b"),
        (readers.uint16, "H"),
        (readers.int16, "h"),
        (readers.int32, "i"),
        (readers.int64, "q"),
    ):
        if position + struct.calcsize(f">{letter}") <= len(data):
            (expected,) = struct.unpack_from(f">{letter}", data, position)
            assert reader(data, position) == expected
        else:
            with pytest.raises(IndexError):
                reader(data, position)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Yield the function that puts a module with a digest in the place of Heartbeat's."""

    def place(digest: str) -> None:
        name = f"{request_decoders.__name__}.heartbeat"
        module: Any = ModuleType(name)
        module.SCHEMA, module.DECODERS = digest, {4: decoder_of_buffers(HeartbeatRequest, 4)}
        monkeypatch.setitem(sys.modules, name, module)
        request_decoders.decoders_of.cache_clear()

    yield place
    request_decoders.decoders_of.cache_clear()


def test_a_module_of_another_schema_is_not_used(place: Callable[[str], None]) -> None:
    place(request_decoders.schema_digest(HeartbeatRequest))
    assert request_decoders.compiled_decoder(HeartbeatRequest, 4) is decoder_of_buffers(HeartbeatRequest, 4)
    assert request_decoders.compiled_decoder(HeartbeatRequest, 77) is None
    place(request_decoders.schema_digest(JoinGroupRequest))
    assert request_decoders.compiled_decoder(HeartbeatRequest, 4) is None


def declared(**fields: tuple[Any, Any]) -> type[Message]:
    """Return a message that declares these fields."""
    namespace = {name: default for name, (_, default) in fields.items()}
    namespace["__annotations__"] = {name: kind for name, (kind, _) in fields.items()}
    made = cast("type[Message]", MessageMeta("DrawingRequest", (Message,), namespace))
    return message(versions="0-1", flexible="1+")(made)


def test_each_change_of_a_declaration_changes_its_digest() -> None:
    plain = field()
    variants = [
        declared(width=(Int32, plain), name=(String, plain)),
        declared(name=(String, plain), width=(Int32, plain)),
        declared(width=(Int64, plain), name=(String, plain)),
        declared(width=(Int32, field(default=3)), name=(String, plain)),
        declared(width=(Int32, field(versions="1+")), name=(String, plain)),
        declared(width=(Int32, plain), title=(String, plain)),
    ]
    assert len({request_decoders.schema_digest(each) for each in variants}) == len(variants)
    again = declared(width=(Int32, plain), name=(String, plain))
    assert request_decoders.schema_digest(again) == request_decoders.schema_digest(variants[0])


def test_only_requests_of_these_apis_have_compiled_decoders() -> None:
    assert request_decoders.compiled_decoder(MetadataRequest, 12) is None
    assert request_decoders.compiled_decoder(ProduceResponse, 9) is None


@pytest.mark.skipif(IS_COMPILED, reason="in a clone")
def test_a_clone_writes_its_decoders_at_run_time() -> None:
    assert request_decoders.compiled_decoder(ProduceRequest, 9) is None


@pytest.mark.skipif(not IS_COMPILED, reason="make compiled runs it")
@every_request
def test_compiled_decoders_are_used(cls: type[Message]) -> None:
    module = import_module(f"{request_decoders.__name__}.{cls.__module__.rpartition('.')[2]}")
    for version in versions_of(cls):
        decode = cls.decoder(version)
        assert decode is module.DECODERS[version]
        assert type(decode).__name__ == "builtin_function_or_method"
