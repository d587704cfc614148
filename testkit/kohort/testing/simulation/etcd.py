"""etcd in a simulated process: its JSON gateway over HTTP on the virtual network, with answers that get lost.

What is stored outlives the process, as etcd's disk does. The brokers ask it with their own client over TCP.
"""

from collections.abc import AsyncIterator
from typing import Any

import h11
import msgspec
import trio

from kohort.broker.etcd.messages import Json
from kohort.testing.etcd_gateway import HTTP_OK, answered, created, watched
from kohort.testing.etcd_store import EtcdStore
from kohort.testing.simulation.kernel import SECOND, Kernel
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.program import Program
from kohort.testing.simulation.trio_process import TrioProcess
from kohort.testing.simulation.trio_sockets import put_on_network

PORT = 2379
TICK_SECONDS = 0.25  # Leases may end so late.
RECEIVE_BYTES = 64 * 1024
JSON_HEADER = ("content-type", "application/json")


class SimulatedEtcd(Program[TrioProcess]):
    """One etcd, over all lives of its process."""

    def __init__(self, kernel: Kernel, network: Network, name: str = "etcd") -> None:
        """Start it."""
        super().__init__(kernel, network, name)
        self.lost_requests = 0.0
        """How often a request gets lost before anything is done: from 0 to 1."""
        self.lost_answers = 0.0
        """How often what was asked for is done, and the answer gets lost: from 0 to 1."""
        self._store = EtcdStore()
        self._changed: trio.Event
        self.start()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.name}:{PORT}"

    @property
    def is_serving(self) -> bool:
        """Whether its process lives."""
        return self.is_running

    def begin(self) -> TrioProcess:
        """Return a process that serves what is stored: etcd syncs it before it answers."""
        process = TrioProcess(self.kernel, self.name, self._serve)
        put_on_network(process, self.network, self.host)
        return process

    # -- serving ------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        self._changed = trio.Event()
        sock = trio.socket.socket()
        await sock.bind((self.name, PORT))
        sock.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._expire)
            while True:
                connection, _ = await sock.accept()
                nursery.start_soon(self._talk, trio.SocketStream(connection))

    async def _expire(self) -> None:
        while True:
            revision = self._store.revision
            self._store.expire(self._now())
            self._tell(revision)
            await trio.sleep(TICK_SECONDS)

    def _now(self) -> float:
        return self.kernel.time_ns / SECOND

    def _tell(self, revision: int) -> None:
        """Wake the watches, if anything has changed since that revision."""
        if self._store.revision != revision:
            self._changed.set()
            self._changed = trio.Event()

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
        random = self.kernel.random
        if random.random() < self.lost_requests:
            return False
        status, answer = self._answer(path, form)
        if random.random() < self.lost_answers:
            return False
        content = msgspec.json.encode(answer)
        headers = [JSON_HEADER, ("content-length", str(len(content)))]
        for part in (
            h11.Response(status_code=status, headers=headers),
            h11.Data(content),
            h11.EndOfMessage(),
        ):
            await stream.send_all(protocol.send(part) or b"")
        return protocol.our_state is h11.DONE

    def _answer(self, path: str, form: Json) -> tuple[int, Json]:
        revision = self._store.revision
        found = answered(self._store, path, form, self._now())
        self._tell(revision)
        return found

    async def _stream(
        self, protocol: h11.Connection, stream: trio.SocketStream, form: dict[str, Any]
    ) -> None:
        """Send what changes, until the client is gone."""
        head = h11.Response(status_code=HTTP_OK, headers=[JSON_HEADER, ("transfer-encoding", "chunked")])
        await stream.send_all(protocol.send(head) or b"")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until_gone, stream, nursery.cancel_scope)
            async for message in self._news(form):
                line = msgspec.json.encode({"result": message}) + b"\n"
                await stream.send_all(protocol.send(h11.Data(line)) or b"")
            nursery.cancel_scope.cancel()

    async def _news(self, form: dict[str, Any]) -> AsyncIterator[Json]:
        first, goes_on = created(self._store, form)
        yield first
        while goes_on:
            changed = self._changed
            news, goes_on = watched(self._store, form)
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
