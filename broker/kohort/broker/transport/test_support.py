"""Real sockets on loopback, a reactor in this process, handlers that a test holds in its hand."""

import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import trio

from kohort.broker.config import load_config
from kohort.broker.config.current import CurrentConfig
from kohort.broker.runtime.clock import ManualClock
from kohort.broker.runtime.loop import Mailbox
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import TrioWorkers
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.dispatch import Handle
from kohort.broker.transport.permissions import ALLOW_ALL
from kohort.broker.transport.poller import KqueuePoller, Poller, make_poller
from kohort.broker.transport.reactor import Open, Reactor
from kohort.broker.transport.request import Request
from kohort.broker.transport.test_kqueue import FakeSelect
from kohort.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

HEARTBEAT = 12
HEARTBEAT_VERSION = 4
FETCH = 1
FETCH_VERSION = 12
LIST_GROUPS = 16
LIST_GROUPS_VERSION = 5
API_VERSIONS = 18
CONNECTIONS_MAX = 1_000
SUPER_USER = "User:admin"


def poller_by_name(name: str) -> Poller:
    """Return the poller; kqueue as a stand-in, which a Linux machine has not."""
    return KqueuePoller(cast(Any, FakeSelect())) if name == "kqueue" else make_poller(name)


class World:
    """A reactor without a broker behind it, and what its handler was asked."""

    def __init__(
        self, nursery: trio.Nursery, settings: Sequence[tuple[str, str]], poller: str, connections_max: int
    ) -> None:
        self.clock = ManualClock()
        self.asked: list[tuple[HeartbeatRequest, Request]] = []
        self.counters = TransportCounters()
        self.current = CurrentConfig(load_config(None, [("socket.request.max.bytes", "1000000"), *settings]))
        self.mailbox = Mailbox(socket.socketpair())
        self.timers = Timers(self.mailbox.wake)
        self.handlers: dict[int, Handle] = {HEARTBEAT: self._heartbeat}
        self.reactor = Reactor(
            self,
            self.current,
            mailbox=self.mailbox,
            timers=self.timers,
            clock=self.clock,
            workers=TrioWorkers(nursery),
            counters=self.counters,
            end_round=lambda: None,
            connections_max=connections_max,
            permissions=ALLOW_ALL,
            is_privileged=lambda principal: principal == SUPER_USER,
            poller=poller_by_name(poller),
        )
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self.reactor.listen(listener)
        self.port: int = listener.getsockname()[1]

    async def connect(self, source: str | None = None) -> trio.SocketStream:
        """Return a connection, from one of this machine's own addresses where that matters."""
        return await trio.open_tcp_stream("127.0.0.1", self.port, local_address=source)

    def opens(self, opens: Open) -> None:
        """Have the listener's connections made by that: their clients say who they are."""
        self.reactor._opens[0] = opens
        self.reactor._acceptor._knows.clear()

    def advance(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.mailbox.wake()

    def handler_of(self, api_key: int) -> Handle:
        return self.handlers[api_key]

    def _heartbeat(self, message: HeartbeatRequest, request: Request) -> None:
        self.asked.append((message, request))

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(20):  # Of a busy machine.
            while not condition():
                await trio.sleep(0.001)


@asynccontextmanager
async def world(
    *settings: tuple[str, str], poller: str = "epoll", connections_max: int = CONNECTIONS_MAX
) -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        made = World(nursery, settings, poller, connections_max)
        nursery.start_soon(made.reactor.run)
        yield made
        made.reactor.stop()
        nursery.cancel_scope.cancel()
    made.reactor.close()
    made.mailbox.close()


def frame(
    correlation_id: int, *, api_key: int = HEARTBEAT, version: int = HEARTBEAT_VERSION, body: bytes = b""
) -> bytes:
    if api_key == HEARTBEAT and not body:
        body = HeartbeatRequest(group_id="g", generation_id=correlation_id, member_id="m").encode(version)
    head = struct.pack(">hhih", api_key, version, correlation_id, 4) + b"test" + b"\0"
    return struct.pack(">i", len(head) + len(body)) + head + body


async def receive(stream: trio.SocketStream, count: int = 1) -> list[tuple[int, bytes]]:
    """Return the next answers as correlation id and the bytes after it."""
    answers: list[tuple[int, bytes]] = []
    data = b""
    with trio.fail_after(20):
        while len(answers) < count:
            while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
                more = await stream.receive_some()
                assert more, "the broker closed the connection"
                data += more
            size = int.from_bytes(data[:4], "big")
            answers.append((int.from_bytes(data[4:8], "big"), data[8 : 4 + size]))
            data = data[4 + size :]
    assert not data
    return answers


def fetch(correlation_id: int) -> bytes:
    body = FetchRequest(max_wait_ms=1, min_bytes=1, topics=()).encode(FETCH_VERSION)
    return frame(correlation_id, api_key=FETCH, version=FETCH_VERSION, body=body)


def fetched(records: object) -> FetchResponse:
    """Return an answer with these records."""
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=cast(bytes, records))
    return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(partition,)),))


def list_groups(correlation_id: int) -> bytes:
    body = ListGroupsRequest(states_filter=(), types_filter=()).encode(LIST_GROUPS_VERSION)
    return frame(correlation_id, api_key=LIST_GROUPS, version=LIST_GROUPS_VERSION, body=body)


def listed(size_bytes: int) -> ListGroupsResponse:
    """Return an answer of about that size."""
    group = ListedGroup(group_id="g" * 1_000, protocol_type="", group_state="", group_type="")
    return ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=(group,) * (size_bytes // 1_000))
