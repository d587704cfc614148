"""A client's side of a connection by hand: no socket, no loop, no clock."""

import struct
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.broker.handlers.prepared import Prepared
from kohort.broker.transport.answers import FILE_RANGE_BYTES, JOINED_BYTES
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.in_flight import HELD_BYTES_MAX, SHARE_BYTES_MIN, Allowance
from kohort.broker.transport.peer import (
    LENGTHY_IN_FLIGHT_MAX,
    REQUEST_BYTES,
    REQUESTS_IN_FLIGHT_MAX,
    SLOW_BYTES_PER_SECOND_MIN,
    SLOW_GRACE_MS,
    SLOW_GRACE_MS_FULL,
    SLOW_UNSENT_BYTES_MIN,
    STALLED_MS_MAX,
    STUCK_MS_MAX,
    Peer,
)
from kohort.broker.transport.request import ReceivedRequest
from kohort.broker.transport.request_forms import SHORT_ANSWERS
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages.api_versions import ApiVersionsResponse
from kohort.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.registry import APIS, BY_NAME
from kohort.protocol.schema import Message

HEARTBEAT, HEARTBEAT_VERSION = 12, 4
FETCH, FETCH_VERSION = 1, 12
DESCRIBE_GROUPS, DESCRIBE_GROUPS_VERSION = 15, 5
LIST_GROUPS, LIST_GROUPS_VERSION = 16, 5
PRODUCE = 0
API_VERSIONS = 18
FRAME_BYTES_MAX = 100 * 1024 * 1024
NOW_MS = 1_700_000_000_000


class Side:
    """A peer, what came out of it, and what was sent on its behalf."""

    def __init__(self) -> None:
        self.allowance = Allowance()
        self.peer = Peer(cast(Any, self), self.allowance, frame_bytes_max=FRAME_BYTES_MAX, now_ms=NOW_MS)
        self.asked: list[ReceivedRequest] = []
        self.wire = b""

    def receive(self, data: bytes, now_ms: int = NOW_MS) -> int:
        """Take bytes as a connection does, a receive at a time; return how many requests came out."""
        self.peer.receive(data, now_ms)
        return self.ask()

    def ask(self) -> int:
        before = len(self.asked)
        while (found := self.peer.next_request()) is not None:
            self.asked.append(found[0])
        return len(self.asked) - before

    def answer(self, request: ReceivedRequest, *, size_bytes: int = 0) -> None:
        """Answer a heartbeat, or a fetch with records of that size in memory."""
        if request.api.api_key == HEARTBEAT:
            self.peer.complete(request, HeartbeatResponse(error_code=request.correlation_id % 100))
        else:
            self.peer.complete(request, fetched(bytes(size_bytes)))

    def send(self, at_most: int = 1 << 40) -> int:
        """Send as a socket does that takes so many bytes; return how many it took."""
        room = at_most
        data = self.peer.collect()
        if data:
            count = min(len(data), room)
            self.wire += data[:count]
            if count < len(data):
                self.peer.not_sent(data, count)
            room -= count
        while self.peer.pieces and room:
            piece = self.peer.pieces[0]
            count = min(len(piece), room)
            self.wire += b"F" * count if isinstance(piece, FileRange) else bytes(piece[:count])
            self.peer.sent(count, NOW_MS)
            room -= count
        return at_most - room


def fetched(records: object) -> FetchResponse:
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=cast(bytes, records))
    return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(partition,)),))


def frame(
    correlation_id: int,
    *,
    api_key: int = HEARTBEAT,
    version: int = HEARTBEAT_VERSION,
    member_id: str = "m",
    tags: bytes = b"\0",
) -> bytes:
    body = HeartbeatRequest(group_id="g", generation_id=correlation_id, member_id=member_id).encode(
        HEARTBEAT_VERSION
    )
    if api_key == FETCH:
        body = struct.pack(">iiiiBii", -1, 0, 0, 1, 0, 0, -1) + b"\1\1\1\0"
    elif api_key == LIST_GROUPS:
        body = ListGroupsRequest(states_filter=(), types_filter=()).encode(version)
    elif api_key == DESCRIBE_GROUPS:
        body = DescribeGroupsRequest(groups=("g",)).encode(version)
    head = struct.pack(">hhih", api_key, version, correlation_id, 4) + b"test" + tags
    return struct.pack(">i", len(head) + len(body)) + head + body


def correlation_ids(wire: bytes) -> list[int]:
    found = []
    while wire:
        size = int.from_bytes(wire[:4], "big")
        assert len(wire) >= 4 + size
        found.append(int.from_bytes(wire[4:8], "big"))
        wire = wire[4 + size :]
    return found


def list_groups(correlation_id: int) -> bytes:
    return frame(correlation_id, api_key=LIST_GROUPS, version=LIST_GROUPS_VERSION)


def listed(size_bytes: int) -> ListGroupsResponse:
    """Return an answer of about that size."""
    group = ListedGroup(group_id="g" * 1_000, protocol_type="", group_state="", group_type="")
    return ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=(group,) * (size_bytes // 1_000))


# -- order ----------------------------------------------------------------------------------------------


def test_answers_leave_in_the_order_of_their_requests() -> None:
    side = Side()
    assert side.receive(frame(1) + frame(2) + frame(3)) == 3
    for request in reversed(side.asked):
        assert side.send() == 0
        side.answer(request)
    side.send()
    assert correlation_ids(side.wire) == [1, 2, 3]
    assert side.peer.held_bytes == 0


def test_an_answer_for_many_clients_is_not_changed() -> None:
    side = Side()
    many = Prepared(HeartbeatResponse(error_code=7))
    for number in (1, 2, 3):
        side.receive(frame(number))
        side.peer.complete(side.asked[-1], cast(Any, many))
        side.send()
    assert correlation_ids(side.wire) == [1, 2, 3]
    alone = Side()
    alone.receive(frame(1))
    alone.peer.complete(alone.asked[0], HeartbeatResponse(error_code=7))
    alone.send()
    assert len(side.wire) == 3 * len(alone.wire)


def test_small_answers_are_sent_together() -> None:
    side = Side()
    side.receive(frame(1) + frame(2))
    for request in side.asked:
        side.answer(request)
    data = side.peer.collect()
    assert correlation_ids(data) == [1, 2]
    assert not side.peer.pieces


def test_bytes_refused_by_the_socket_are_sent_before_later_ones() -> None:
    side = Side()
    side.receive(frame(1) + frame(2))
    side.answer(side.asked[0])
    assert side.send(at_most=3) == 3
    side.answer(side.asked[1])
    side.send()
    assert correlation_ids(side.wire) == [1, 2]
    assert side.peer.held_bytes == 0


def test_records_are_not_copied() -> None:
    side = Side()
    side.receive(frame(1, api_key=FETCH, version=FETCH_VERSION))
    records = FileRange(7, 100, 5_000_000, None)
    side.peer.complete(side.asked[0], fetched(records))
    assert side.peer.collect() == b""
    assert side.peer.pieces[1] is records
    assert side.peer.held_bytes < FILE_RANGE_BYTES + 200
    side.send(at_most=2_000_000)
    side.send()
    assert (records.size_bytes, records.position) == (0, 5_000_100)
    assert correlation_ids(side.wire) == [1]
    assert side.peer.held_bytes == 0


def test_an_abandoned_request_does_not_delay_the_next() -> None:
    side = Side()
    side.receive(frame(1) + frame(2))
    side.answer(side.asked[1])
    side.peer.abandon(side.asked[0])
    side.send()
    assert correlation_ids(side.wire) == [2]


def test_a_second_answer_to_a_request_fails() -> None:
    side = Side()
    side.receive(frame(1))
    side.answer(side.asked[0])
    with pytest.raises(AssertionError, match="Heartbeat answered twice"):
        side.answer(side.asked[0])


def test_an_answer_that_cannot_be_encoded_is_no_answer() -> None:
    side = Side()
    side.receive(frame(1))
    impossible = HeartbeatResponse(error_code=1 << 20)
    with pytest.raises(Exception):  # noqa: B017  # Whatever the encoder makes of it: the caller contains it.
        side.peer.complete(side.asked[0], impossible)
    assert side.asked[0].answer is None


# -- what is no request ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data, complaint",
    [
        (struct.pack(">i", -5), "a frame of -5 bytes"),
        (struct.pack(">i", FRAME_BYTES_MAX + 1), "a frame of 104857601 bytes"),
        (struct.pack(">i", 3) + b"abc", "a request header"),
        (struct.pack(">ihhih", 10, 12, 4, 1, -2), "cut off"),
        (struct.pack(">ihhih", 10, 12, 4, 1, 9), "cut off"),
        (struct.pack(">ihhih", 10, 12, 4, 1, -1), "cut off"),
        (frame(1, api_key=9_999), "api key 9999, which is unknown"),
        (frame(1, version=99), "Heartbeat version 99"),
        (frame(1, tags=b"\xff"), "cut off|varint"),
        (frame(1, tags=b"\xa1\x9c\x01"), "20001 tagged fields"),  # They need not even be there.
    ],
)
def test_malformed_bytes_are_refused_with_a_message(data: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        Side().receive(data)


def test_tags_before_the_body_are_skipped() -> None:
    side = Side()
    assert side.receive(frame(5, tags=b"\2\0\3abc\1\1x")) == 1
    assert side.asked[0].correlation_id == 5


def test_a_newer_api_versions_is_answered_in_version_0() -> None:
    side = Side()
    assert side.receive(frame(5, api_key=API_VERSIONS, version=127)) == 1
    side.send()
    answer = ApiVersionsResponse.decode(side.wire[8:], 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.max_version) for each in answer.api_keys] == [(18, 5)]


# -- limits ---------------------------------------------------------------------------------------------


def fetch_frame(correlation_id: int) -> bytes:
    return frame(correlation_id, api_key=FETCH, version=FETCH_VERSION)


def pipelined(count: int) -> bytes:
    return b"".join(frame(number, api_key=FETCH, version=FETCH_VERSION) for number in range(count))


def test_limits_are_checked_between_the_frames_of_one_receive() -> None:
    """Small questions with large answers: none is asked that there is no room to answer."""
    side = Side()
    side.allowance.held_bytes_max = most = 200_000
    side.peer.receive(pipelined(300), NOW_MS)

    def ask_and_answer() -> int:
        count = 0
        while (found := side.peer.next_request()) is not None:
            side.answer(found[0], size_bytes=50_000)
            count += 1
        assert side.peer.held_bytes < most + 51_000 + REQUEST_BYTES
        return count

    assert ask_and_answer() == 4
    assert side.peer.frames
    assert not side.peer.may_read()
    while side.peer.frames:
        side.send()
        assert ask_and_answer()
    side.send()
    assert correlation_ids(side.wire) == list(range(300))
    assert side.peer.held_bytes == 0
    assert side.peer.may_read()


def test_answers_behind_a_missing_one_count_too() -> None:
    side = Side()
    side.peer.receive(pipelined(9), NOW_MS)
    first = side.peer.next_request()
    assert first is not None
    asked = 0
    while (found := side.peer.next_request()) is not None:
        side.answer(found[0], size_bytes=HELD_BYTES_MAX // 4)
        asked += 1
    assert asked == 4
    assert side.send() == 0
    assert not side.peer.may_ask()
    side.answer(first[0])
    side.send()
    assert side.peer.may_ask()


def test_requests_in_flight_are_limited_in_number_and_in_bytes() -> None:
    side = Side()
    side.receive(b"".join(map(frame, range(REQUESTS_IN_FLIGHT_MAX + 5))))
    assert len(side.asked) == REQUESTS_IN_FLIGHT_MAX
    assert not side.peer.may_read()
    side.answer(side.asked[0])
    side.send()
    assert side.ask() == 1
    large = Side()
    one = frame(1, member_id="m" * 30_000)
    large.receive(one * 1_000)
    assert len(large.asked) * len(one) < HELD_BYTES_MAX
    assert large.peer.held_bytes == 1_000 * len(one) + len(large.asked) * REQUEST_BYTES


def test_a_frame_larger_than_the_limit_is_read_and_handled() -> None:
    side = Side()
    records = bytes(HELD_BYTES_MAX + 10_000_000)
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="t", partition_data=(partition,))
    body = ProduceRequest(acks=1, timeout_ms=1, topic_data=(topic,)).encode(9)
    head = struct.pack(">hhih", PRODUCE, 9, 1, 4) + b"test\0"
    data = struct.pack(">i", len(head) + len(body)) + head + body
    side.receive(data[: HELD_BYTES_MAX + 1_000])
    assert side.peer.may_read()
    view = side.peer.buffer()
    while view is not None:
        rest = data[side.peer.bytes_in :]
        count = min(len(view), len(rest))
        view[:count] = rest[:count]
        view.release()
        side.peer.filled(count, NOW_MS)
        view = side.peer.buffer()
    assert side.ask() == 1
    assert side.peer.held_bytes == len(data) + REQUEST_BYTES
    assert not side.peer.may_read()
    side.peer.abandon(side.asked[0])
    side.send()
    assert side.peer.held_bytes == 0


def test_while_memory_is_scarce_only_the_permitted_connection_starts_a_large_frame() -> None:
    side = Side()
    side.receive(struct.pack(">i", 1_000_000) + bytes(100_000))
    assert side.peer.may_read()
    side.allowance.is_scarce = True
    side.allowance.held_bytes_max = 50_000
    assert not side.peer.may_read()
    side.allowance.finishing = side.peer
    assert side.peer.may_read()


def test_with_full_memory_no_request_with_a_long_answer_is_handled() -> None:
    side = Side()
    side.allowance.is_full = side.allowance.is_scarce = True
    assert side.receive(frame(1) + fetch_frame(2) + frame(3)) == 1
    assert not side.peer.may_ask()
    side.allowance.asking = side.peer
    assert side.ask() == 2


def test_every_api_with_a_short_answer_exists_or_is_planned() -> None:
    """A heartbeat, a commit, a join; nothing that lists, describes or fetches."""
    names = {APIS[key].name for key in SHORT_ANSWERS if key in APIS}
    assert {"Produce", "Heartbeat", "OffsetCommit", "JoinGroup", "SyncGroup", "ApiVersions"} <= names
    assert not names & {"Fetch", "Metadata", "OffsetFetch", "ListOffsets"}
    assert not [name for name in names if name.startswith(("Describe", "List"))]


# -- time -----------------------------------------------------------------------------------------------


def test_a_connection_with_half_a_frame_and_silence_is_closed() -> None:
    side = Side()
    side.receive(frame(1)[:-3])
    assert side.peer.look(NOW_MS + STALLED_MS_MAX - 1, is_paused=False) is None
    assert side.peer.look(NOW_MS + STALLED_MS_MAX, is_paused=False) == "half a frame, then silence"


def test_silence_of_a_paused_client_does_not_count() -> None:
    side = Side()
    side.receive(frame(1)[:-3])
    assert side.peer.look(NOW_MS + STALLED_MS_MAX, is_paused=True) is None
    side.peer.resumed(NOW_MS + STALLED_MS_MAX)
    assert side.peer.look(NOW_MS + STALLED_MS_MAX + 1, is_paused=False) is None


def looked(side: Side, step_ms: int, steps: int, act: Callable[[int], None]) -> tuple[int, str] | None:
    """Look every `step_ms`, after `act`; return after how many milliseconds there was a reason, and which."""
    side.peer.look(NOW_MS, is_paused=False)
    for number in range(1, steps + 1):
        act(NOW_MS + number * step_ms)
        reason = side.peer.look(NOW_MS + number * step_ms, is_paused=False)
        if reason is not None:
            return number * step_ms, reason
    return None


def test_a_connection_that_sends_a_frame_byte_by_byte_is_closed() -> None:
    side = Side()
    side.receive(struct.pack(">i", 1_000_000))
    after = looked(side, 2_000, 100, lambda now_ms: side.peer.receive(b"x", now_ms))
    assert after == (SLOW_GRACE_MS + 2_000, "a frame that comes too slowly")


def test_a_large_frame_over_a_slow_line_is_accepted() -> None:
    side = Side()
    side.receive(struct.pack(">i", FRAME_BYTES_MAX))
    rate = bytes(2 * SLOW_BYTES_PER_SECOND_MIN + 10)
    assert looked(side, 2_000, 1_000, lambda now_ms: side.peer.receive(rate, now_ms)) is None


def test_each_frame_has_its_own_time_limit() -> None:
    side = Side()
    part = len(frame(1)) - 1

    def next_part(now_ms: int) -> None:
        side.peer.receive((frame(1) * 2)[part : part + len(frame(1))], now_ms)
        side.ask()
        for request in side.asked:
            side.answer(request)
        side.asked.clear()
        side.send()

    side.receive(frame(1)[:part])
    assert looked(side, 9_000, 20, next_part) is None


def test_a_client_that_reads_its_answers_byte_by_byte_is_closed() -> None:
    side = Side()
    side.receive(frame(1, api_key=FETCH, version=FETCH_VERSION))
    side.answer(side.asked[0], size_bytes=SLOW_UNSENT_BYTES_MIN + 1_000)
    side.send(at_most=1)
    after = looked(side, 2_000, 100, lambda now_ms: side.peer.sent(1, now_ms))
    assert after == (SLOW_GRACE_MS + 2_000, "it takes its answers too slowly")


def test_a_client_that_reads_its_answers_at_a_fair_rate_is_kept() -> None:
    side = Side()
    side.receive(frame(1, api_key=FETCH, version=FETCH_VERSION))
    side.answer(side.asked[0], size_bytes=8_000_000)
    side.send(at_most=1_000)
    take = 2 * SLOW_BYTES_PER_SECOND_MIN + 10
    assert looked(side, 2_000, 200, lambda now_ms: side.peer.sent(take, now_ms)) is None


def test_a_client_that_asks_and_does_not_read_is_closed() -> None:
    side = Side()
    side.receive(frame(1, api_key=FETCH, version=FETCH_VERSION))
    side.answer(side.asked[0], size_bytes=JOINED_BYTES + 1)
    side.peer.collect()
    assert side.peer.look(NOW_MS + STALLED_MS_MAX, is_paused=False) is None
    assert side.peer.look(NOW_MS + STALLED_MS_MAX, is_paused=True) == "it asks and asks, and takes no answers"


def test_a_client_that_does_not_read_is_closed_sooner_with_full_memory() -> None:
    side = Side()
    side.receive(fetch_frame(1))
    side.answer(side.asked[0], size_bytes=SHARE_BYTES_MIN + 1)
    side.peer.collect()
    assert side.peer.look(NOW_MS + STUCK_MS_MAX, is_paused=False) is None
    side.allowance.is_full = True
    assert side.peer.look(NOW_MS + STUCK_MS_MAX - 1, is_paused=False) is None
    reason = side.peer.look(NOW_MS + STUCK_MS_MAX, is_paused=False)
    assert reason == "it takes no answers, and the room for all is taken"


def test_a_client_that_reads_very_slowly_is_closed_sooner_with_full_memory() -> None:
    side = Side()
    side.receive(fetch_frame(1))
    side.answer(side.asked[0], size_bytes=SLOW_UNSENT_BYTES_MIN + 1_000)
    side.send(at_most=1)
    side.allowance.is_full = True
    after = looked(side, 500, 100, lambda now_ms: side.peer.sent(1, now_ms))
    assert after == (SLOW_GRACE_MS_FULL + 500, "it takes its answers too slowly")


# -- any order of things --------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.randoms(use_true_random=True))
def test_for_any_pieces_and_order_each_answer_is_sent_once_in_order(random: Random) -> None:
    side = Side()
    side.allowance.held_bytes_max = random.choice([500, 5_000, 60_000, HELD_BYTES_MAX])
    count = random.randint(1, 30)
    stream = b"".join(frame(number, api_key=FETCH, version=FETCH_VERSION) for number in range(count))
    unanswered: list[ReceivedRequest] = []
    while stream or unanswered or side.peer.frames or side.peer.pieces or side.peer.requests_in_flight:
        if stream and side.peer.may_read():
            size = random.randint(1, 200)
            side.peer.receive(stream[:size], NOW_MS)
            stream = stream[size:]
        while (found := side.peer.next_request()) is not None:
            unanswered.append(found[0])
        if unanswered and random.randrange(2):
            request = unanswered.pop(random.randrange(len(unanswered)))
            side.answer(request, size_bytes=random.choice([0, 10, 3_000, JOINED_BYTES + 1]))
        side.send(random.choice([0, 1, 100, 50_000]))
    assert correlation_ids(side.wire) == list(range(count))
    assert side.peer.held_bytes == 0
    assert side.peer.bytes_out == len(side.wire)


# -- answers that may be long, and are known all at once ------------------------------------------------


def test_few_questions_with_long_answers_are_in_flight_at_a_time() -> None:
    """What their answers take is known when they come: after a flush, perhaps all of them."""
    side = Side()
    asked = side.receive(b"".join(map(list_groups, range(20))))
    assert asked == LENGTHY_IN_FLIGHT_MAX
    assert not side.peer.may_read()
    for number, request in enumerate(side.asked):
        side.peer.complete(request, listed(1_000))
        assert side.ask() == (1 if number < 20 - LENGTHY_IN_FLIGHT_MAX else 0)
        side.send()
    assert correlation_ids(side.wire) == list(range(20))
    assert side.peer.may_read()


def test_heartbeats_and_fetches_are_no_such_questions() -> None:
    side = Side()
    side.receive(b"".join(map(list_groups, range(LENGTHY_IN_FLIGHT_MAX))))
    more = [frame(number) for number in range(20)]
    more += [frame(number, api_key=FETCH, version=FETCH_VERSION) for number in range(20)]
    assert side.receive(b"".join(more)) == 40


def test_an_answer_without_memory_is_encoded_later() -> None:
    side = Side()
    side.receive(b"".join(map(list_groups, range(5))) + frame(5))
    for request in side.asked[:5]:
        side.peer.complete(request, listed(HELD_BYTES_MAX * 2 // 5))
    side.answer(side.asked[5])
    assert side.peer.deferred == 2
    assert side.peer.held_bytes < HELD_BYTES_MAX * 7 // 5
    assert not side.peer.may_ask()
    assert not side.peer.may_read()
    sent = side.send()
    assert sent > HELD_BYTES_MAX
    assert side.peer.may_encode()
    side.send()
    assert correlation_ids(side.wire) == list(range(6))
    assert (side.peer.deferred, side.peer.held_bytes) == (0, 0)
    assert side.peer.may_read()


def test_with_full_memory_only_the_connection_with_the_turn_encodes_long_answers() -> None:
    side = Side()
    side.receive(list_groups(1) + list_groups(2) + frame(3))
    side.allowance.is_full, side.allowance.held_bytes_max = True, SHARE_BYTES_MIN
    for request in side.asked[:2]:
        side.peer.complete(request, listed(100_000))
    side.answer(side.asked[2])
    assert side.send() == 0
    assert side.peer.held_bytes < SHARE_BYTES_MIN
    side.allowance.asking = side.peer
    assert side.send() > 0
    assert correlation_ids(side.wire) == [1]
    assert side.peer.deferred == 1
    side.send()
    assert correlation_ids(side.wire) == [1, 2, 3]


def test_an_answer_behind_an_unknown_one_is_encoded_too() -> None:
    side = Side()
    side.receive(list_groups(1) + list_groups(2))
    side.allowance.is_full = True
    side.peer.complete(side.asked[1], listed(1_000))
    side.allowance.is_full = False
    assert side.peer.may_encode()
    assert side.send() == 0
    assert side.peer.deferred == 0
    side.peer.complete(side.asked[0], listed(1_000))
    side.send()
    assert correlation_ids(side.wire) == [1, 2]


def test_member_metadata_are_not_copied_into_answers() -> None:
    """Seven megabytes in a hundred answers are still seven megabytes."""
    side = Side()
    metadata = bytes(JOINED_BYTES + 1)
    member = DescribedGroupMember(
        member_id="m", client_id="c", client_host="h", member_metadata=metadata, member_assignment=b""
    )
    group = DescribedGroup(
        error_code=0, group_id="g", group_state="", protocol_type="", protocol_data="", members=(member,)
    )
    side.receive(frame(1, api_key=DESCRIBE_GROUPS, version=DESCRIBE_GROUPS_VERSION))
    side.peer.complete(side.asked[0], DescribeGroupsResponse(groups=(group,)))
    assert side.peer.collect() == b""
    assert any(piece is metadata for piece in side.peer.pieces)
    assert side.peer.held_bytes > len(metadata)
    side.send()
    assert side.peer.held_bytes == 0


def test_a_connection_with_few_small_answers_is_modest() -> None:
    side = Side()
    side.receive(b"".join(map(frame, range(4))))
    assert not side.peer.is_modest
    for request in side.asked:
        side.answer(request)
    side.send()
    assert side.peer.is_modest
    side.receive(list_groups(4))
    side.peer.complete(side.asked[-1], listed(100_000))
    side.send()
    assert not side.peer.is_modest


# -- producers --------------------------------------------------------------------------------------------


def producers_frame(correlation_id: int, message: Message, version: int) -> bytes:
    api = BY_NAME[type(message).__name__.removesuffix("Request")]
    body = message.encode(version)
    tags = b"\0" if api.request_header_version(version) == 2 else b""
    head = struct.pack(">hhih", api.api_key, version, correlation_id, 4) + b"test" + tags
    return struct.pack(">i", len(head) + len(body)) + head + body


def init(correlation_id: int) -> bytes:
    message = InitProducerIdRequest(transactional_id="a", transaction_timeout_ms=1_000)
    return producers_frame(correlation_id, message, 5)


def end(correlation_id: int) -> bytes:
    message = EndTxnRequest(transactional_id="a", producer_id=1, producer_epoch=0, committed=True)
    return producers_frame(correlation_id, message, 5)


def produce(correlation_id: int) -> bytes:
    return producers_frame(correlation_id, ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=()), 9)


ANSWERS: dict[str, Message] = {
    "InitProducerId": InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_epoch=0),
    "EndTxn": EndTxnResponse(throttle_time_ms=0, error_code=0),
    "Produce": ProduceResponse(responses=()),
    "Heartbeat": HeartbeatResponse(error_code=0),
}


def test_transaction_requests_of_a_producer_act_in_order() -> None:
    """Some wait, in a task or for markers: what comes later would act before them."""
    side = Side()
    frames = [produce(0), produce(1), init(2), init(3), frame(4), produce(5), produce(6), end(7), produce(8)]
    turns = [[0, 1], [2], [3, 4], [5, 6], [7], [8]]
    side.peer.receive(b"".join(frames), NOW_MS)
    for turn in turns:
        assert side.ask() == len(turn)
        assert side.ask() == 0
        waiting = side.asked[-len(turn) :]
        assert [each.correlation_id for each in waiting] == turn
        for each in reversed(waiting):
            assert side.peer.frames == [] or not side.peer.may_ask() or each.api.name == "Heartbeat"
            side.peer.complete(each, ANSWERS[each.api.name])
        side.send()
    assert correlation_ids(side.wire) == list(range(9))
    assert side.peer.held_bytes == 0


def test_an_unsent_answer_delays_no_later_request() -> None:
    side = Side()
    side.receive(fetch_frame(0) + init(1) + init(2))
    assert [each.correlation_id for each in side.asked] == [0, 1], "the fetch waits, and holds nobody"
    side.peer.complete(side.asked[1], ANSWERS["InitProducerId"])
    assert side.ask() == 1


def test_an_abandoned_produce_without_an_answer_is_complete() -> None:
    side = Side()
    side.receive(produce(0) + init(1))
    assert len(side.asked) == 1
    side.peer.abandon(side.asked[0])
    assert side.ask() == 1
