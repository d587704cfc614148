"""The metadata of one host's brokers: who hears what, what ends with a worker, and a disk that is full."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kohort.broker.etcd.errors import EtcdUnavailable
from kohort.broker.etcd.messages import Json, Put, Range, Watched, not_there
from kohort.broker.etcd.watching import Watch
from kohort.broker.host.channel import Channel
from kohort.broker.host.key_log import KeyLog
from kohort.broker.host.keys_client import KeysClient
from kohort.broker.host.keys_server import KeysServer
from kohort.storage.memory_filesystem import MemoryFileSystem

FILE = Path("/data/metadata.jsonl")
PATIENCE_SECONDS = 30


def unexpected(message: Json) -> None:
    """Fail: nobody says anything but what the store answers."""
    raise AssertionError(message)


class Host:
    """A server, and the workers that a test connects to it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.disk = MemoryFileSystem()
        self.disk.make_directory(FILE.parent)
        self.server = KeysServer(KeyLog(self.disk, FILE))
        self._nursery = nursery
        nursery.start_soon(self.server.run)

    def worker(self) -> tuple[KeysClient, socket.socket]:
        """Return a worker's client, and what ends when the worker does."""
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        client = KeysClient(Channel(theirs))
        self._nursery.start_soon(self.server.serve, Channel(ours), unexpected)
        self._nursery.start_soon(client.run)
        return client, theirs


@asynccontextmanager
async def host() -> AsyncIterator[Host]:
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            yield Host(nursery)
            nursery.cancel_scope.cancel()


async def test_keys_of_a_worker_lease_are_deleted_with_the_worker() -> None:
    async with host() as made:
        first, life = made.worker()
        second, _ = made.worker()
        lease = await first.grant(9)
        await first.put(Put(b"/brokers/1", b"x", lease.id))
        await first.put(Put(b"/topics/t", b"y"))
        seen: list[Watched] = []
        gone = trio.Event()

        def hear(watched: Watched) -> None:
            seen.append(watched)
            if any(each.deleted for each in watched.changes):
                gone.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(Watch(second, b"/", b"0", 2).run, hear)
            await trio.testing.wait_all_tasks_blocked()
            life.shutdown(socket.SHUT_RDWR)
            await gone.wait()
            nursery.cancel_scope.cancel()
        found = await second.range_all(b"/", b"0")
        assert [each.key for each in found.items] == [b"/topics/t"]


async def test_leases_of_an_earlier_supervisor_expire_at_the_start_and_revisions_continue() -> None:
    async with host() as made:
        worker, _ = made.worker()
        lease = await worker.grant(9)
        before = await worker.put(Put(b"/brokers/1", b"x", lease.id))
        crashed = made.disk.after_crash()
        again = KeyLog(crashed, FILE)
        assert again.entries.keys() == {b"/brokers/1"}
        KeysServer(again)
        assert not again.entries
        assert again.revision == before + 1


async def test_a_change_that_cannot_be_synced_is_unavailable_and_invisible() -> None:
    async with host() as made:
        worker, _ = made.worker()
        lease = await worker.grant(9)
        await worker.put(Put(b"a", b"1", lease.id))
        made.disk.room_bytes = 3
        with pytest.raises(EtcdUnavailable):
            await worker.txn([not_there(b"b")], [Put(b"b", b"2")])
        assert not (await worker.range(Range(b"b"))).items
        made.disk.room_bytes = None
        done = await worker.txn([not_there(b"b")], [Put(b"b", b"3", lease.id)])
        assert done.succeeded
        assert (await worker.range(Range(b"a"))).items[0].lease == lease.id
        assert KeyLog(made.disk, FILE).entries.keys() == {b"a", b"b"}


async def test_a_request_without_a_supervisor_is_refused() -> None:
    async with host() as made:
        worker, life = made.worker()
        life.shutdown(socket.SHUT_RDWR)
        await worker.gone.wait()
        with pytest.raises(EtcdUnavailable, match="is gone"):
            await worker.range(Range(b"a"))
