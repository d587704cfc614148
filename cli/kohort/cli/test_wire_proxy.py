"""The proxy before a broker that hangs, or says what no broker says."""

from __future__ import annotations

import pytest
import trio

from kohort.cli.wire_frames import Reading
from kohort.cli.wire_proxy import Address, Proxy
from kohort.protocol.headers import frame_request
from kohort.protocol.messages.heartbeat import HeartbeatRequest

LOCAL: Address = ("127.0.0.1", 0)
MESSAGE = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
HEARTBEAT = b"".join(frame_request(MESSAGE, 4, 7, "app"))
TIMEOUT_SECONDS = 20


class Shown:
    """What the proxy has shown."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    def take(self, source: Address, target: Address, reading: Reading | None, problem: str) -> None:
        self.titles.append(problem if reading is None else reading.title)


async def broker_and_proxy(
    nursery: trio.Nursery, *, rewrites: bool = False
) -> tuple[trio.SocketListener, trio.SocketStream, Shown]:
    """Return who listens as the broker, a client's connection to the proxy before it, and what is shown."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    broker: Address = listener.socket.getsockname()[:2]
    shown = Shown()
    proxy = Proxy(shown.take, nursery, rewrites=rewrites, shows_secrets=False)
    client = await trio.open_tcp_stream("127.0.0.1", await proxy.listen(LOCAL, broker))
    return listener, client, shown


async def all_of(stream: trio.SocketStream) -> bytes:
    """Return what comes until the other side closes."""
    found = b""
    while data := await stream.receive_some(65_536):
        found += data
    return found


async def send_for_ever(stream: trio.SocketStream) -> None:
    while True:
        await stream.send_all(bytes(1_000))


@pytest.mark.parametrize("rewrites", [False, True])
def test_a_hanging_broker_is_closed_after_its_client_left(
    rewrites: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.cli.wire_proxy.SILENCE_SECONDS", 0.1)

    async def play() -> None:
        with trio.fail_after(TIMEOUT_SECONDS):
            async with trio.open_nursery() as nursery:
                listener, client, shown = await broker_and_proxy(nursery, rewrites=rewrites)
                async with await listener.accept() as broker:
                    await client.send_all(HEARTBEAT)
                    assert await broker.receive_some(len(HEARTBEAT)) == HEARTBEAT
                    await client.aclose()
                    assert await all_of(broker) == b""
                    with pytest.raises(trio.BrokenResourceError):
                        await send_for_ever(broker)
                assert shown.titles[0] == f"Heartbeat v4 request, correlation id 7, {len(HEARTBEAT)} bytes"
                nursery.cancel_scope.cancel()

    trio.run(play)


@pytest.mark.parametrize("length", [2**31 - 1, -1, -(2**31), 2**30])
def test_an_impossible_length_is_reported_once_and_its_bytes_are_forwarded(length: int) -> None:
    said = length.to_bytes(4, "big", signed=True) + bytes(100_000)

    async def play() -> None:
        with trio.fail_after(TIMEOUT_SECONDS):
            async with trio.open_nursery() as nursery:
                listener, client, shown = await broker_and_proxy(nursery)
                async with await listener.accept() as broker:
                    await client.send_all(said * 3)
                    await client.send_eof()
                    assert await all_of(broker) == said * 3
                    await broker.send_all(said)
                    await broker.send_eof()
                    assert await all_of(client) == said
                assert len(shown.titles) == 2
                assert all(f"a frame of {length} bytes; the limit is" in each for each in shown.titles)
                nursery.cancel_scope.cancel()

    trio.run(play)


def test_a_broker_that_does_not_accept_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.cli.wire_proxy.CONNECT_SECONDS", 0.1)

    async def play() -> None:
        with trio.fail_after(TIMEOUT_SECONDS):
            async with trio.open_nursery() as nursery:
                _, client, _ = await broker_and_proxy(nursery)
                monkeypatch.setattr(trio, "open_tcp_stream", never)
                shown = Shown()
                proxy = Proxy(shown.take, nursery, rewrites=False, shows_secrets=False)
                port = await proxy.listen(LOCAL, ("127.0.0.1", 1))
                async with await connected("127.0.0.1", port) as other, client:
                    assert await all_of(other) == b""
                assert shown.titles == ["the broker cannot be reached: it did not answer in 0.1 s"]
                nursery.cancel_scope.cancel()

    connected = trio.open_tcp_stream
    trio.run(play)


async def never(*_address: object) -> trio.SocketStream:
    await trio.sleep_forever()
    raise AssertionError
