"""One member of a simulated etcd: the JSON gateway over HTTP on the virtual network.

What is stored outlives the process, as etcd's disk does. The brokers ask it with their own client over TCP.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from random import Random
from typing import Any, Protocol

import h11
import msgspec
import trio

from kohort.broker.etcd.messages import Json
from kohort.testing.etcd_gateway import HTTP_OK, answered, created, no_quorum, watched
from kohort.testing.etcd_store import EtcdStore
from kohort.testing.simulation.kernel import SECOND, Kernel
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.program import Program
from kohort.testing.simulation.trio_process import TrioProcess
from kohort.testing.simulation.trio_sockets import put_on_network

PORT = 2379
RECEIVE_BYTES = 64 * 1024
QUORUM_SECONDS_MAX = 7.0  # etcd's own limit for a request.
LOOK_SECONDS = 0.1
JSON_HEADER = ("content-type", "application/json")


class Cluster(Protocol):
    """The etcd that a member belongs to."""

    kernel: Kernel
    network: Network
    random: Random
    store: EtcdStore
    lost_requests: float
    lost_answers: float

    @property
    def has_quorum(self) -> bool:
        """Whether more than half of the members run."""
        ...

    def now(self) -> float:
        """Return the time by which leases end, in seconds."""
        ...

    def changing(self) -> AbstractContextManager[None]:
        """Tell the watches of what changes within the block."""
        ...

    def late_by(self, path: str, form: Json) -> float:
        """Return how much later a call is carried out. Nobody hears of it then."""
        ...

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Change something after `seconds`."""
        ...


class EtcdMember(Program[TrioProcess]):
    """One endpoint, over all lives of its process. All members have the same keys."""

    def __init__(self, etcd: Cluster, name: str) -> None:
        """Start it."""
        super().__init__(etcd.kernel, etcd.network, name)
        self.slow_seconds = 0.0
        """A call takes up to so much longer."""
        self.watch_lag_seconds = 0.0
        """Watches hear of a change so much later: the member is behind."""
        self._etcd = etcd
        self._changed: trio.Event
        self._streams: dict[trio.CancelScope, None]
        self.start()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.name}:{PORT}"

    @property
    def is_serving(self) -> bool:
        """Whether its process lives."""
        return self.is_running

    @property
    def is_awake(self) -> bool:
        """Whether its process lives and does not stand still."""
        return self.is_running and not self.process.is_paused

    def begin(self) -> TrioProcess:
        """Return a process that serves what is stored: etcd syncs it before it answers."""
        self._changed, self._streams = trio.Event(), {}
        process = TrioProcess(self.kernel, self.name, self._serve)
        put_on_network(process, self.network, self.host)
        return process

    def tell(self) -> None:
        """Let the watches look at what has changed."""
        life = self.process
        lag_ns = int(self.watch_lag_seconds * SECOND)
        self.kernel.call_after(lag_ns, lambda: life.post(self._wake) if life is self.process else None)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def break_watches(self) -> None:
        """Close the connections of all watches."""
        self.process.post(lambda: [each.cancel() for each in tuple(self._streams)])

    # -- serving ------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        sock = trio.socket.socket()
        await sock.bind((self.name, PORT))
        sock.listen()
        async with trio.open_nursery() as nursery:
            while True:
                connection, _ = await sock.accept()
                nursery.start_soon(self._talk, trio.SocketStream(connection))

    async def _talk(self, stream: trio.SocketStream) -> None:
        """Answer the requests of one connection."""
        protocol = h11.Connection(h11.SERVER)
        async with stream:
            try:
                while await self._answer_one(protocol, stream):
                    protocol.start_next_cycle()
            except (trio.BrokenResourceError, h11.RemoteProtocolError):
                return  # The client is gone.

    async def _answer_one(self, protocol: h11.Connection, stream: trio.SocketStream) -> bool:
        """Return whether another request may follow."""
        path, body = "", b""
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                protocol.receive_data(bytes(await stream.receive_some(RECEIVE_BYTES)))
            elif isinstance(event, h11.Request):
                path = event.target.decode().removeprefix("/v3/")
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return False
        form = msgspec.json.decode(body or b"{}")
        if path == "watch":
            await self._stream(protocol, stream, form["create_request"])
            return False
        answer = await self._answer(path, form)
        if answer is None:
            return False
        status, told = answer
        content = msgspec.json.encode(told)
        headers = [JSON_HEADER, ("content-length", str(len(content)))]
        for part in (
            h11.Response(status_code=status, headers=headers),
            h11.Data(content),
            h11.EndOfMessage(),
        ):
            await stream.send_all(protocol.send(part) or b"")
        return protocol.our_state is h11.DONE

    async def _answer(self, path: str, form: Json) -> tuple[int, Json] | None:
        """Return status and answer, None where the answer or the request gets lost."""
        etcd, random = self._etcd, self._etcd.random
        if random.random() < etcd.lost_requests:
            return None
        late_seconds = etcd.late_by(path, form)
        if late_seconds:
            etcd.later(late_seconds, lambda: answered(etcd.store, path, form, etcd.now()))
            return None
        if self.slow_seconds:
            await trio.sleep(random.uniform(0, self.slow_seconds))
        with trio.move_on_after(QUORUM_SECONDS_MAX):
            while not etcd.has_quorum:
                await trio.sleep(LOOK_SECONDS)
        if not etcd.has_quorum:
            return no_quorum()
        with etcd.changing():
            answer = answered(etcd.store, path, form, etcd.now())
        return None if random.random() < etcd.lost_answers else answer

    async def _stream(
        self, protocol: h11.Connection, stream: trio.SocketStream, form: dict[str, Any]
    ) -> None:
        """Send what changes, until the client is gone."""
        head = h11.Response(status_code=HTTP_OK, headers=[JSON_HEADER, ("transfer-encoding", "chunked")])
        await stream.send_all(protocol.send(head) or b"")
        async with trio.open_nursery() as nursery:
            self._streams[nursery.cancel_scope] = None
            nursery.start_soon(_until_gone, stream, nursery.cancel_scope)
            async for message in self._news(form):
                line = msgspec.json.encode({"result": message}) + b"\n"
                await stream.send_all(protocol.send(h11.Data(line)) or b"")
        self._streams.pop(nursery.cancel_scope, None)

    async def _news(self, form: dict[str, Any]) -> AsyncIterator[Json]:
        first, goes_on = created(self._etcd.store, form)
        yield first
        while goes_on:
            changed = self._changed
            news, goes_on = watched(self._etcd.store, form)
            if news is None:
                await changed.wait()
            else:
                yield news
        await trio.sleep_forever()  # etcd leaves the stream of a cancelled watch open.


async def _until_gone(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """Cancel the scope once the client has closed. It sends nothing during a watch."""
    try:
        while await stream.receive_some(RECEIVE_BYTES):
            pass
    except trio.BrokenResourceError:
        pass
    scope.cancel()
