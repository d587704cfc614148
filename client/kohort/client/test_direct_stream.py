"""The stream that receives frames where they are decoded; its peer sends in pieces of any size."""

import asyncio
import random
import socket

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from kohort.client.connecting import open_connection
from kohort.client.direct_stream import FIRST_BYTES, connect
from kohort.client.errors import NetworkError
from kohort.protocol.errors import WireError
from kohort.protocol.framing import Frame

MOST_BYTES = 16 << 20


async def received(parts: list[bytes], hear: list[bytes], first: list[bytes]) -> Exception:
    """Add to `hear` the frames of what a peer sends, which then hangs up; return why that was all."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            for each in parts:
                await stream.send(each)
                await anyio.sleep(0)

    def on_frame(frame: Frame) -> None:
        hear.append(bytes(frame))

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        stream = await connect("127.0.0.1", listener.extra(SocketAttribute.local_port), MOST_BYTES)
        with pytest.raises((anyio.EndOfStream, WireError)) as why, anyio.fail_after(20):
            await stream.receive_frames(first.append, on_frame)
        await stream.aclose()
        tasks.cancel_scope.cancel()
    return why.value


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("seed", range(5))
def test_frames_of_all_sizes_are_complete_for_any_pieces(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [0, 1, FIRST_BYTES - 4, FIRST_BYTES, FIRST_BYTES + 1, 3 << 20, 0, 100, 5 << 20, 7, 700_000]
    chance.shuffle(sizes)
    bodies = [chance.randbytes(each) for each in sizes]
    whole, parts = b"".join(map(framed, bodies)), list[bytes]()
    while whole:
        size = chance.choice((1, 3, 5_000, FIRST_BYTES, 2 << 20))
        parts.append(whole[:size])
        whole = whole[size:]
    hear, first = list[bytes](), list[bytes]()
    why = asyncio.run(received(parts, hear, first))
    assert isinstance(why, anyio.EndOfStream)
    assert hear == bodies
    assert len(first) == 1, "the first bytes are looked at once"


def test_an_impossible_length_ends_the_stream_after_earlier_frames() -> None:
    hear = list[bytes]()
    large = bytes(range(250)) * 1_000
    why = asyncio.run(received([framed(large), b"\xff\xff\xff\xff"], hear, []))
    assert isinstance(why, WireError)
    assert str(why).startswith("a frame of -1 bytes")
    assert hear == [large]


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_host_whose_addresses_all_refuse_is_reported(loop: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # Bound and not listening.
        port = nobody.getsockname()[1]

        async def main() -> None:
            with pytest.raises(NetworkError, match=f"no connection to localhost:{port}: Connection refused$"):
                await open_connection("localhost", port, client_id="test", timeout_ms=5_000)

        anyio.run(main, backend=loop)
