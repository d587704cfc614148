"""The frame reader: whatever pieces a stream comes in, the same frames come out."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.protocol.errors import WireError
from kohort.protocol.framing import BUFFER_BYTES_MIN, FIRST_BUFFER_BYTES_MAX, Frame, FrameReader
from kohort.protocol.limits import max_request_bytes

LIMIT = 1 << 20


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in bodies)


def split_at(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(each % (len(data) + 1) for each in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def fill(reader: FrameReader, data: bytes) -> list[Frame]:
    """Bring `data` as a caller does that prefers `recv_into`."""
    frames: list[Frame] = []
    while data:
        room = reader.buffer()
        if room is None:
            frames += reader.receive(data)
            break
        count = min(len(room), len(data))
        room[:count] = data[:count]
        room.release()
        frames += reader.filled(count)
        data = data[count:]
    return frames


bodies = st.lists(st.one_of(st.binary(max_size=20), st.integers(0, 3000).map(lambda size: b"b" * size)))
places = st.lists(st.integers(0, 1 << 30), max_size=12)


@given(bodies=bodies, places=places)
def test_any_split_of_the_stream_gives_the_same_frames(bodies: list[bytes], places: list[int]) -> None:
    reader = FrameReader(LIMIT)
    frames = [frame for piece in split_at(framed(*bodies), places) for frame in reader.receive(piece)]
    assert [bytes(each) for each in frames] == bodies
    assert not reader.in_frame


@given(bodies=bodies, places=places)
def test_filling_the_buffer_gives_the_same_frames(bodies: list[bytes], places: list[int]) -> None:
    reader = FrameReader(LIMIT)
    frames = [frame for piece in split_at(framed(*bodies), places) for frame in fill(reader, piece)]
    assert [bytes(each) for each in frames] == bodies
    assert reader.buffer() is None


def test_a_stream_of_single_bytes_gives_the_same_frames() -> None:
    reader = FrameReader(LIMIT)
    stream = framed(b"", b"one", b"", b"a longer one")
    frames = [frame for byte in stream for frame in reader.receive(bytes((byte,)))]
    assert [bytes(each) for each in frames] == [b"", b"one", b"", b"a longer one"]


def test_many_small_frames_are_returned_together_as_bytes() -> None:
    frames = FrameReader(LIMIT).receive(framed(*[b"heartbeat"] * 1000))
    assert frames == [b"heartbeat"] * 1000
    assert all(isinstance(each, bytes) for each in frames)


def test_a_frame_can_be_as_large_as_the_limit() -> None:
    assert FrameReader(5).receive(framed(b"12345")) == [b"12345"]
    with pytest.raises(WireError, match="a frame of 6 bytes; the limit is 5"):
        FrameReader(5).receive(framed(b"123456"))


@pytest.mark.parametrize("length", [-1, -(1 << 31), (1 << 31) - 1, LIMIT + 1])
def test_a_length_outside_the_limits_is_refused_as_soon_as_it_is_read(length: int) -> None:
    reader = FrameReader(LIMIT)
    data = length.to_bytes(4, "big", signed=True)
    assert reader.receive(data[:3]) == []
    with pytest.raises(WireError, match=f"a frame of {length} bytes"):
        reader.receive(data[3:])


def test_frames_before_a_bad_length_are_lost_with_the_connection() -> None:
    with pytest.raises(WireError):
        FrameReader(LIMIT).receive(framed(b"good") + b"\xff\xff\xff\xff")


def test_memory_grows_with_received_bytes_not_with_the_announced_length() -> None:
    reader = FrameReader(1 << 30)
    tracemalloc.start()
    try:
        reader.receive((1 << 30).to_bytes(4, "big") + b"x")
        assert reader.buffer_bytes == BUFFER_BYTES_MIN
        assert tracemalloc.get_traced_memory()[1] < 2 * BUFFER_BYTES_MIN
        fill(reader, bytes(3 * FIRST_BUFFER_BYTES_MAX))
        assert tracemalloc.get_traced_memory()[1] < 16 * FIRST_BUFFER_BYTES_MAX
    finally:
        tracemalloc.stop()
    assert reader.in_frame


def test_a_megabyte_in_usual_pieces_is_written_into_its_final_buffer() -> None:
    reader = FrameReader(1 << 30)
    reader.receive(framed(bytes(FIRST_BUFFER_BYTES_MAX - 4096))[:65_536])
    assert reader.buffer_bytes == FIRST_BUFFER_BYTES_MAX - 4096


def test_a_frame_of_an_api_with_a_smaller_limit_is_refused_by_its_first_bytes() -> None:
    def limit_of(api_key: int, limit: int) -> int:
        return 100_000 if api_key == 3 else limit

    large = (200_000).to_bytes(4, "big")
    assert FrameReader(1 << 20, limit_of).receive(large + b"\0\0....") == []
    with pytest.raises(WireError, match="a frame of 200000 bytes for API 3; the limit is 100000 there"):
        FrameReader(1 << 20, limit_of).receive(large + b"\0\3....")
    in_pieces = FrameReader(1 << 20, limit_of)
    assert in_pieces.receive(large + b"\0") == []
    with pytest.raises(WireError, match="for API 3"):
        fill(in_pieces, b"\3")
    whole = FrameReader(1 << 20, limit_of)
    with pytest.raises(WireError, match="for API 3"):
        whole.receive(framed(b"\0\3" + bytes(199_998)))


@pytest.mark.parametrize("api_key", [-1, 1, 3, 18, 99])
def test_requests_without_records_are_held_to_eight_mebibytes(api_key: int) -> None:
    assert max_request_bytes(api_key, 104_857_600) == 8 * 1024 * 1024
    assert max_request_bytes(api_key, 1_000_000) == 1_000_000


def test_a_produce_request_can_be_as_large_as_the_setting_allows() -> None:
    assert max_request_bytes(0, 104_857_600) == 104_857_600


def test_a_large_frame_is_one_view_and_the_next_frame_follows() -> None:
    body = bytes(range(256)) * (5 * FIRST_BUFFER_BYTES_MAX // 256)
    stream = framed(body, b"next")
    reader = FrameReader(1 << 30)
    frames = reader.receive(stream[:1000]) + fill(reader, stream[1000:])
    assert isinstance(frames[0], memoryview)
    assert frames[0] == body
    assert frames[1:] == [b"next"]


def test_a_returned_frame_is_never_overwritten() -> None:
    reader = FrameReader(LIMIT)
    reader.receive(framed(b"first")[:6])
    (first,) = fill(reader, framed(b"first")[6:])
    reader.receive(framed(b"other")[:6])
    fill(reader, framed(b"other")[6:])
    assert first == b"first"


def test_the_buffer_grows_while_the_caller_holds_the_last_view() -> None:
    body = bytes(range(256)) * (3 * FIRST_BUFFER_BYTES_MAX // 256)
    reader = FrameReader(1 << 30)
    reader.receive(framed(body)[:4])
    frames: list[Frame] = []
    held, position = [], 0
    while not frames:
        room = reader.buffer()
        assert room is not None
        held.append(room)
        room[:] = body[position : position + len(room)]
        position += len(room)
        frames = reader.filled(len(room))
    assert frames == [body]
    sizes = [len(each) for each in held]
    assert sizes[0] == BUFFER_BYTES_MIN
    assert sum(sizes) == len(body)


def test_the_buffer_has_space_only_for_the_current_frame() -> None:
    reader = FrameReader(LIMIT)
    assert reader.buffer() is None
    reader.receive(framed(b"12345678")[:7])
    room = reader.buffer()
    assert room is not None
    assert len(room) == 5


@pytest.mark.parametrize("beginning", [b"\x16\x03\x01\x02", b"\x16\x03\x03\x00", b"\x15\x03\x03\x00"])
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_tls_client_hello_is_named_as_tls(beginning: bytes, cut: int) -> None:
    reader = FrameReader(LIMIT)
    assert reader.receive(beginning[:cut]) == []
    with pytest.raises(WireError, match="the other side seems to speak TLS"):
        reader.receive(beginning[cut:] + b"\x00\x01\x00")


@pytest.mark.parametrize(
    "beginning", [b"GET ", b"\x16\x02\x01\x02", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"]
)
def test_other_impossible_lengths_are_not_named_tls(beginning: bytes) -> None:
    with pytest.raises(WireError) as raised:
        FrameReader(LIMIT).receive(beginning)
    assert "TLS" not in str(raised.value)
