"""Connections to other brokers: what is taken for a death, and what is not."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kohort.broker.cluster.peers import PeerWatch, was_refused
from kohort.broker.metadata import BrokerState, EmbeddedMetadataStore
from kohort.broker.runtime.supervisor import UNWATCHED
from kohort.storage import OsFileSystem, StorageError

QUIET_SECONDS = 0.3


class World:
    """Broker 1 looks at broker 2, which is a socket."""

    def __init__(self, folder: Path) -> None:
        self.store = EmbeddedMetadataStore.open(OsFileSystem(), folder, cluster_id="c", node_id=1)
        self.expelled: list[BrokerState] = []
        self.expel_fails = 0
        self.port = 0
        self.accepted: list[trio.SocketStream] = []

    async def expel(self, broker: BrokerState) -> None:
        if self.expel_fails:
            self.expel_fails -= 1
            raise StorageError("etcd can't be reached")
        self.expelled.append(broker)

    async def listen(self, nursery: trio.Nursery) -> trio.CancelScope:
        """Return what ends the process of broker 2."""
        (listener,) = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        scope = trio.CancelScope()

        async def serve() -> None:
            with scope:
                async with listener:
                    while True:
                        self.accepted.append(await listener.accept())

        nursery.start_soon(serve)
        return scope

    async def register(self, epoch: int) -> BrokerState:
        broker = BrokerState(2, "127.0.0.1", self.port, epoch=epoch)
        await self.store.register(broker)
        return broker

    async def hang_up(self) -> None:
        while self.accepted:
            await self.accepted.pop().aclose()


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[World, trio.Nursery]]:
    world = World(folder)
    watch = PeerWatch(world.store, 1, world.expel)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run, UNWATCHED)
        yield world, nursery
        nursery.cancel_scope.cancel()


async def until(holds: Callable[[], object]) -> None:
    with trio.fail_after(10):
        while not holds():
            await trio.sleep(0.005)


async def test_a_broker_that_closes_and_refuses_connections_is_dead(tmp_path: Path) -> None:
    async with watched(tmp_path) as (world, nursery):
        process = await world.listen(nursery)
        broker = await world.register(epoch=5)
        await until(lambda: world.accepted)
        process.cancel()
        await trio.sleep(QUIET_SECONDS)  # It is still connected.
        assert world.expelled == []
        await world.hang_up()
        await until(lambda: world.expelled)
        assert world.expelled[0] == broker


async def test_a_broker_that_closes_but_accepts_connections_is_alive(tmp_path: Path) -> None:
    async with watched(tmp_path) as (world, nursery):
        await world.listen(nursery)
        await world.register(epoch=5)
        for _ in range(3):
            await until(lambda: world.accepted)
            await world.hang_up()
        await until(lambda: world.accepted)
        assert world.expelled == []


async def test_a_broker_that_was_never_reached_is_left_to_its_lease(tmp_path: Path) -> None:
    async with watched(tmp_path) as (world, _):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            world.port = closed.getsockname()[1]
        await world.register(epoch=5)
        await trio.sleep(QUIET_SECONDS)
        assert world.expelled == []


async def test_a_broker_that_registers_again_is_watched_again(tmp_path: Path) -> None:
    async with watched(tmp_path) as (world, nursery):
        process = await world.listen(nursery)
        await world.register(epoch=5)
        await until(lambda: world.accepted)
        await world.register(epoch=6)  # Of which nothing is known yet.
        await until(lambda: len(world.accepted) == 2)
        process.cancel()
        await world.hang_up()
        await until(lambda: world.expelled)
        assert {each.epoch for each in world.expelled} == {6}


async def test_a_failed_report_of_a_death_is_repeated(tmp_path: Path) -> None:
    async with watched(tmp_path) as (world, nursery):
        world.expel_fails = 2
        process = await world.listen(nursery)
        await world.register(epoch=5)
        await until(lambda: world.accepted)
        process.cancel()
        await world.hang_up()
        await until(lambda: world.expelled)


@pytest.mark.parametrize(
    "causes, expected",
    [
        ([ConnectionRefusedError()], True),
        ([ConnectionRefusedError(), ConnectionRefusedError()], True),
        ([ConnectionRefusedError(), OSError("no route to host")], False),
        ([TimeoutError()], False),
    ],
)
def test_a_broker_is_refused_only_if_every_address_refuses(causes: list[OSError], expected: bool) -> None:
    error = OSError("all attempts to connect failed")
    error.__cause__ = causes[0] if len(causes) == 1 else ExceptionGroup("several", causes)
    assert was_refused(error) is expected
    assert not was_refused(OSError("unknown host"))
