from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.cli.wire_frames import Conversation, FrameReading, Reading, Row, lines_of, split_frames
from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.headers import RequestHeader, ResponseHeader, frame_request
from kohort.protocol.messages.api_versions import ApiVersionsResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kohort.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kohort.protocol.records import Compression, build_batch, build_transaction_marker
from kohort.protocol.records.control import ControlType
from kohort.protocol.registry import APIS, BETWEEN_BROKERS, EVERY_API, Api
from kohort.protocol.schema import Message
from tests.messages import random_message, versions_of
from tests.repetitions import repetitions

SPOKEN = [*EVERY_API.values(), *BETWEEN_BROKERS.values()]
BATCH = build_batch([(1_000, b"k", b"v", (("h", b"x"), ("n", None))), (1_001, None, b"w", ())], base_offset=7)
FEW = settings(max_examples=repetitions(2, by_night=20))
every_api = pytest.mark.parametrize("api", SPOKEN, ids=lambda api: str(api.name))
randoms = st.randoms(use_true_random=False)


def with_batches(value: Any) -> Any:
    """Return the message with record batches where it has some bytes for records."""
    if isinstance(value, tuple):
        return tuple(map(with_batches, value))
    if not isinstance(value, Message):
        return value
    fields = {}
    for each in type(value).declaration().fields:
        inner = getattr(value, each.name)
        fields[each.name] = BATCH * 2 if each.wire.name == "records" and inner else with_batches(inner)
    return msgspec.structs.replace(value, **fields)  # type: ignore[type-var]


def request_frame(message: Message, version: int) -> bytes:
    return b"".join(frame_request(message, version, 5, "app"))


def answer_frame(message: Message, version: int, api: Api) -> bytes:
    header = ResponseHeader(correlation_id=5).encode(api.response_header_version(version))
    body = header + message.encode(version)
    return len(body).to_bytes(4, "big") + body


def assert_shows(reading: Reading, frame: bytes) -> None:
    """Every byte stands in a row, and each row's bytes stand where it says."""
    shown: set[int] = set()
    for row in reading.rows:
        if not row.is_decompressed:
            assert row.data == frame[row.offset : row.offset + row.size], row
            shown.update(range(row.offset, row.offset + row.size))
    assert not reading.problem
    assert sorted(shown) == list(range(len(frame)))


@every_api
@FEW
@given(random=randoms)
def test_every_byte_of_every_message_is_shown(api: Api, random: Random) -> None:
    for version in versions_of(api.request):
        frame = request_frame(with_batches(random_message(api.request, version, random)), version)
        reading, found = FrameReading(frame, shows_secrets=True).request()
        assert_shows(reading, frame)
        assert found is not None
        assert (found.name, reading.version) == (api.name, version)
        answer = with_batches(random_message(api.response, version, random))
        if api.name == "ApiVersions":  # In this one error it has the form of version 0.
            answer = msgspec.structs.replace(answer, error_code=0)
        frame = answer_frame(answer, version, api)
        assert_shows(FrameReading(frame, shows_secrets=True).answer(api, version), frame)


@every_api
@FEW
@given(random=randoms)
def test_a_truncated_frame_is_shown_up_to_its_end(api: Api, random: Random) -> None:
    version = random.choice(versions_of(api.request))
    frame = request_frame(random_message(api.request, version, random), version)
    for size in {4, 9, len(frame) - 1, random.randrange(4, len(frame))}:
        reading, _ = FrameReading(frame[:size]).request()
        assert reading.problem
        assert [row for row in reading.rows if row.offset + row.size > size] == []
        assert list(lines_of(reading))[-1].startswith("  damaged here: ")


@FEW
@given(data=st.binary(min_size=1, max_size=200))
def test_random_bytes_raise_no_error(data: bytes) -> None:
    for frame in split_frames(data):
        FrameReading(frame).request()
        talk = Conversation()
        talk.request(frame)
        talk.answer(frame)
        list(lines_of(talk.answer(frame)))


def produced(records: bytes) -> Reading:
    partitions = (PartitionProduceData(index=0, records=records),)
    message = ProduceRequest(
        acks=-1, timeout_ms=1_000, topic_data=(TopicProduceData(name="t", partition_data=partitions),)
    )
    return FrameReading(request_frame(message, 9)).request()[0]


def rows_of(reading: Reading, name: str) -> list[Row]:
    return [row for row in reading.rows if row.field.endswith(f".{name}")]


@pytest.mark.parametrize("compression", list(Compression), ids=lambda each: str(each.name))
def test_batches_are_opened_down_to_the_headers_of_records(compression: Compression) -> None:
    records = [(1_700_000_000_000 + each, b"key", b"value", (("h", b"x"),)) for each in range(3)]
    reading = produced(build_batch(records, base_offset=40, compression=compression))
    assert not reading.problem
    offsets = [row.meaning for row in rows_of(reading, "offset_delta")]
    assert offsets == ["0: offset 40", "1: offset 41", "2: offset 42"]
    assert rows_of(reading, "timestamp_delta")[2].meaning == "2: 2023-11-14T22:13:20.002+00:00"
    assert rows_of(reading, "headers[0].value")[0].meaning == "'x'"
    is_plain = compression is Compression.NONE
    assert {row.is_decompressed for row in rows_of(reading, "offset_delta")} == {not is_plain}
    named = "not compressed" if is_plain else compression.name.lower()
    assert rows_of(reading, "attributes")[0].meaning == f"{int(compression)}: {named}"


def test_a_wrong_crc_is_reported_and_the_records_are_shown() -> None:
    reading = produced(BATCH[:-3] + b"z" + BATCH[-2:])
    (remark,) = [row for row in rows_of(reading, "crc") if not row.size]
    assert remark.meaning.startswith("damaged: the CRC of these bytes is 0x")
    assert len(rows_of(reading, "offset_delta")) == 2


def test_a_marker_of_a_transaction_is_named() -> None:
    marker = build_transaction_marker(
        ControlType.COMMIT, timestamp_ms=1, producer_id=1, producer_epoch=0, coordinator_epoch=0
    )
    assert [row.meaning for row in rows_of(produced(marker), "key.type")] == ["1: COMMIT"]


def test_a_record_that_is_damaged_is_where_it_ends() -> None:
    reading = produced(BATCH[:61] + b"\x7f" + BATCH[62:])
    assert reading.problem == "a record has 15 bytes, but its length is -64"


def test_a_consumer_subscription_is_decoded_and_other_metadata_are_not() -> None:
    metadata = ConsumerProtocolSubscription(topics=("orders",), generation_id=3).encode_versioned()
    protocols = tuple(JoinGroupRequestProtocol(name="range", metadata=each) for each in (metadata, b"\0"))
    message = JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=protocols
    )
    reading, _ = FrameReading(request_frame(message, 9)).request()
    assert [row.meaning for row in rows_of(reading, "topics[0]")] == ["'orders'"]
    assert [row.field for row in rows_of(reading, "generation_id")] == ["protocols[0].metadata.generation_id"]


SECRET = b"\0bob\0sesame"


def test_passwords_are_masked_unless_requested() -> None:
    frame = request_frame(SaslAuthenticateRequest(auth_bytes=SECRET), 2)
    masked = "\n".join(lines_of(FrameReading(frame).request()[0], all_bytes=True))
    assert "sesame" not in masked
    assert "00 62 6f 62" not in masked
    assert "·· ·· ·· ·· ·· ·· ·· ··" in masked
    assert "11 bytes, masked" in masked
    shown = "\n".join(lines_of(FrameReading(frame, shows_secrets=True).request()[0], all_bytes=True))
    assert "00 62 6f 62 00 73 65 73" in shown
    assert "61 6d 65" in shown


def test_settings_that_sound_secret_are_masked() -> None:
    configs = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=0, value=value)
        for name, value in (("ssl.key.password", "sesame"), ("retention.ms", "1000"))
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=4, resource_name="1", configs=configs
    )
    message = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    text = "\n".join(lines_of(FrameReading(request_frame(message, 1)).request()[0]))
    assert "sesame" not in text
    assert "6 bytes, masked" in text
    assert "'1000'" in text
    assert "4: BROKER" in text


def test_values_in_a_topic_with_a_secret_sounding_name_are_shown() -> None:
    partitions = (PartitionProduceData(index=0, records=BATCH),)
    topics = (TopicProduceData(name="password-resets", partition_data=partitions),)
    message = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics)
    reading, _ = FrameReading(request_frame(message, 9)).request()
    assert rows_of(reading, "records[0].value")[0].meaning == "'v'"


def test_tokens_outside_requests_are_recognized_and_masked() -> None:
    api = APIS[17]
    talk = Conversation()
    talk.request(request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 0))
    talk.answer(answer_frame(SaslHandshakeResponse(error_code=0, mechanisms=("PLAIN",)), 0, api))
    said = talk.request(len(SECRET).to_bytes(4, "big") + SECRET)
    told = talk.answer(bytes(4))
    assert (said.title, told.title) == (
        "SASL token of the client, 15 bytes",
        "SASL token of the server, 4 bytes",
    )
    assert "sesame" not in "\n".join(lines_of(said))
    after = talk.request(request_frame(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4))
    assert (after.api, after.problem) == ("Heartbeat", "")


@pytest.mark.parametrize("user", ["Admin", "A", "0", "Zoe", "bob"])
def test_a_token_is_not_taken_for_a_request(user: str) -> None:
    talk = Conversation()
    talk.request(request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 0))
    token = f"\0{user}\0sesame".encode()
    said = talk.request(len(token).to_bytes(4, "big") + token)
    assert said.title == f"SASL token of the client, {4 + len(token)} bytes"
    assert [row.data for row in said.rows if row.field == "auth_bytes"] == [None]
    assert "sesame" not in "\n".join(lines_of(said))


def test_bytes_after_a_password_are_masked_too() -> None:
    frame = request_frame(SaslAuthenticateRequest(auth_bytes=b"\0bob\0"), 1) + b"sesame"
    frame = (len(frame) - 4).to_bytes(4, "big") + frame[4:]
    reading, _ = FrameReading(frame).request()
    assert (reading.rows[-1].data, reading.rows[-1].meaning) == (None, "6 bytes, masked")
    shown, _ = FrameReading(frame, shows_secrets=True).request()
    assert shown.rows[-1].data == b"sesame"


def test_only_the_first_of_many_fields_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.cli.wire_frames.ROWS_MAX", 50)
    protocols = tuple(JoinGroupRequestProtocol(name=f"p{n}", metadata=b"") for n in range(100))
    message = JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=protocols
    )
    reading, _ = FrameReading(request_frame(message, 0)).request()
    assert (len(reading.rows), reading.problem) == (51, "")
    assert reading.rows[-1].meaning == "only the first 50 fields are shown"


@pytest.mark.parametrize(
    "text",
    [
        "7fffffff 000c0004 00000001 0003617070",  # A length of 2 GiB.
        "80000000 000c0004 00000001 0003617070",
        "0000000a 000c0004 00000001 8001",  # Negative lengths and counts.
        "0000000e 00030000 00000001 0000 80000001",
        "0000000e 00030000 00000001 0000 7fffffff",
        "00000010 000c0004 00000001 0000 00 ffffffff7f",
        "00000009 00030000 00000001 00",
        "00000001 00",
        "00000000",
    ],
)
def test_impossible_lengths_are_reported(text: str) -> None:
    for frame in split_frames(bytes.fromhex(text)):
        reading, _ = FrameReading(frame).request()
        assert reading.problem
        assert len(reading.rows) < 20
        assert list(lines_of(reading))


def test_an_answer_is_recognized_by_its_request() -> None:
    api = APIS[12]
    talk = Conversation()
    frame = answer_frame(random_message(api.response, 4, Random(1)), 4, api)
    assert talk.answer(frame).title == f"answer to a request that was not seen, {len(frame)} bytes"
    talk.request(request_frame(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4))
    assert talk.answer(frame).title == f"Heartbeat v4 answer, correlation id 5, {len(frame)} bytes"


def test_an_api_versions_that_is_too_new_is_answered_in_version_0() -> None:
    api = APIS[18]
    body = ResponseHeader(correlation_id=5).encode(0) + ApiVersionsResponse(
        error_code=35, api_keys=()
    ).encode(0)
    frame = len(body).to_bytes(4, "big") + body
    reading = FrameReading(frame).answer(api, 4)
    assert (reading.version, reading.problem) == (0, "")
    assert reading.rows[2].meaning == "35: UNSUPPORTED_VERSION"


def test_an_unknown_version_is_reported() -> None:
    header = RequestHeader(
        request_api_key=12, request_api_version=99, correlation_id=1, client_id="c"
    ).encode(1)
    reading, _ = FrameReading(len(header).to_bytes(4, "big") + header).request()
    assert reading.problem == "Heartbeat 99 is not among the versions known here: 0-4"
    assert [row.field for row in reading.rows][-1] == "client_id"
    (other,) = split_frames(bytes.fromhex("7fff0000000000010000"))
    assert FrameReading(other).request()[0].problem == "API key 32767 is none that kohort knows"


def test_frames_are_split_with_their_lengths_or_without() -> None:
    frame = request_frame(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    assert split_frames(frame * 3) == [frame] * 3
    assert split_frames(frame[4:]) == [frame]
    assert split_frames(frame + frame[:9]) == [frame, frame[:9]]
    assert split_frames(frame[:-2]) == [frame[:-2]]


def test_a_frame_without_its_end_is_damaged_even_if_its_message_is_complete() -> None:
    frame = request_frame(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    longer = (len(frame) - 3).to_bytes(4, "big") + frame[4:]
    reading, _ = FrameReading(longer).request()
    assert reading.problem == f"cut short: only {len(frame) - 4} of {len(frame) - 3} bytes are here"
