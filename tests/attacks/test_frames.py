"""Frames that never end, that come byte by byte, that are deep in a pipeline, or that are none."""

from __future__ import annotations

import os
import struct
import time

import pytest

from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.metadata import MetadataRequest
from kohort.protocol.messages.produce import ProduceResponse
from kohort.protocol.records import build_batch
from kohort.protocol.registry import BY_NAME
from tests.attacks.producing import PRODUCE_VERSION, create, now_ms, producing
from tests.attacks.trial import StartTrial, answers
from tests.attacks.wire import Line, frame, raw_frame

MEGABYTE = 1_000_000
PRODUCE, METADATA, API_VERSIONS = 0, 3, 18
HELD_S = 1.0
NIGHTLY = "KOHORT_TEST_NIGHTLY"
FRAME_DEADLINE_S = 100.0
LOG_LINES_MAX = 300
TAGGED = 3_500_000


def promise(length: int) -> bytes:
    """Return the first five bytes of a frame of that length."""
    return struct.pack(">i", length) + b"\0"


def test_frames_that_are_only_promised(trial: StartTrial) -> None:
    """Five bytes each, on a thousand connections."""
    with trial() as attacked:
        for line in attacked.connections(1_000):
            line.socket.sendall(promise(99 * MEGABYTE))
        time.sleep(HELD_S)


@pytest.mark.parametrize("api_key, megabytes, count", [(METADATA, 7, 100), (PRODUCE, 90, 10)])
def test_large_frames_that_are_never_finished(
    trial: StartTrial, api_key: int, megabytes: int, count: int
) -> None:
    """All but the last byte of what would be 700 MB and more together."""
    with trial() as attacked:
        version = BY_NAME["Produce" if api_key == PRODUCE else "Metadata"].versions.lowest
        data = raw_frame(api_key, version, bytes(megabytes * MEGABYTE))[:-1]
        for line in attacked.connections(count):
            line.push(data, within_s=0.3)
        time.sleep(HELD_S)


def test_a_thousand_slow_writers(trial: StartTrial) -> None:
    """A byte from each, now and then."""
    request = frame(MetadataRequest(topics=None), 9)
    with trial() as attacked:
        lines = attacked.connections(1_000)
        for position in range(4):
            for line in lines:
                line.socket.sendall(request[position : position + 1])
            time.sleep(0.4)


@pytest.mark.skipif(NIGHTLY not in os.environ, reason=f"{NIGHTLY}=1 runs it")
def test_a_connection_that_sends_a_frame_byte_by_byte_is_closed(trial: StartTrial) -> None:
    with trial() as attacked:
        line = attacked.connect()
        line.socket.sendall(promise(100_000))
        ends_s = time.monotonic() + FRAME_DEADLINE_S
        try:
            while time.monotonic() < ends_s:
                line.socket.sendall(b"\0")
                time.sleep(2.0)
        except ConnectionError:
            return
        raise AssertionError(f"a frame is under way for {FRAME_DEADLINE_S} s")


@pytest.mark.parametrize("reading", [True, False])
def test_deep_pipelines(trial: StartTrial, reading: bool) -> None:
    """Hundreds of thousands of heartbeats of nobody, on four connections."""
    beat = frame(HeartbeatRequest(group_id="nobody", generation_id=1, member_id="nobody"), 4)
    with trial() as attacked:
        lines = attacked.connections(4)
        for _ in range(4):
            for line in lines:
                line.push(beat * 20_000, within_s=0.3)
                if reading:
                    line.drain()


@pytest.mark.parametrize("where", ["header", "body"])
def test_tagged_fields_by_the_million(trial: StartTrial, where: str) -> None:
    count = bytearray()
    left = TAGGED
    while left > 127:
        count.append(left & 127 | 128)
        left >>= 7
    tags = bytes((*count, left)) + b"\x05\x00" * TAGGED
    body = ApiVersionsRequest(client_software_name="a", client_software_version="1").encode(3)
    head = struct.pack(">hhih", API_VERSIONS, 3, 1, -1)
    whole = head + (tags + body if where == "header" else b"\0" + body[:-1] + tags)
    with trial() as attacked:
        for _ in range(3):
            line = attacked.connect()
            line.socket.sendall(struct.pack(">i", len(whole)) + whole)
            line.is_closed(within_s=1.0)


def test_malformed_bytes_from_thousands_of_connections_log_few_lines(trial: StartTrial) -> None:
    with trial() as attacked:
        before = len(attacked.broker.log_lines())
        for number in range(3_000):
            line = Line(attacked.broker.address)
            line.socket.sendall(GARBAGE[number % len(GARBAGE)])
            line.close()
        assert answers(attacked.broker.address)
        assert len(attacked.broker.log_lines()) - before < LOG_LINES_MAX


GARBAGE = (
    struct.pack(">i", -1),
    struct.pack(">i", 2**31 - 1),
    b"GET / HTTP/1.1\r\n\r\n",
    struct.pack(">ihhih", 10, 999, 0, 1, -1),
    struct.pack(">ihhih", 30, 1, 12, 1, -1) + b"\xff" * 20,
)


def test_thousands_of_connections_open_and_close(trial: StartTrial) -> None:
    """Some in the middle of a request, none with a goodbye."""
    request = frame(MetadataRequest(topics=None), 9)
    with trial() as attacked:
        for number in range(3_000):
            line = Line(attacked.broker.address)
            line.socket.sendall(request[: number % (len(request) + 1)])
            line.close()


def test_a_flood_of_records_that_want_no_answer(trial: StartTrial) -> None:
    """acks=0: nothing comes back that would slow the sender down."""
    batch = build_batch([(now_ms(), None, bytes(900_000), ())])
    small = build_batch([(now_ms(), None, b"x", ())])
    with trial() as attacked:
        lines = attacked.connections(6)
        create(lines[0], "flooded")
        large = frame(producing("flooded", batch, acks=0), PRODUCE_VERSION) * 20
        tiny = frame(producing("flooded", small, acks=0), PRODUCE_VERSION) * 5_000
        for _ in range(2):
            for line in lines:
                line.push(large, within_s=0.3)
                line.push(tiny, within_s=0.3)
        asked = attacked.connect().ask(producing("flooded", small), ProduceResponse, PRODUCE_VERSION)
        assert asked.responses[0].partition_responses[0].error_code == 0
