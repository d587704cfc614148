"""A broker whose process dies is noticed by the others at once, and not only when its lease ends.

Each broker keeps an idle connection to each other one. A process that dies ends it, and a machine where
nobody listens any more refuses the next: both together prove that this process is gone, and its
registration is removed, under a compare of its epoch. A broker that is only slow, paused or cut off ends
nothing and refuses nothing; that is left to its lease.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog
import trio

from kohort.broker.cluster.dialing import Dial, Dialled, dial_plain
from kohort.broker.metadata import BrokerState, MetadataStore, Snapshot
from kohort.broker.metadata.store import Failed
from kohort.broker.runtime.supervisor import Watched

CONNECT_SECONDS_MAX = 5.0
LASTING_SECONDS = 1.0
RETRY_SECONDS_MIN = 0.02
RETRY_SECONDS_MAX = 5.0

Expel = Callable[[BrokerState], Awaitable[object]]
"""Removes exactly this registration of a broker. Raises: StorageError, ChangeUnknown."""

log = structlog.get_logger("kohort.cluster")


class PeerWatch:
    """One connection to each of the other brokers. The loop's thread."""

    def __init__(
        self, store: MetadataStore, node_id: int, expel: Expel, dial: Dial = dial_plain, listener: int = 0
    ) -> None:
        """Connect by `dial` to the listener of that number."""
        self._dial = dial
        self._listener = listener
        self._store = store
        self._node_id = node_id
        self._expel = expel
        self._watched: dict[tuple[int, int], trio.CancelScope] = {}

    async def run(self, part: Watched) -> None:
        """Watch all live brokers, until cancelled."""
        more = trio.Event()

        def look_again(before: Snapshot, after: Snapshot) -> None:
            if before.brokers != after.brokers:
                more.set()

        async with trio.open_nursery() as nursery:
            with self._watching(look_again):
                while True:
                    more = trio.Event()
                    for broker, scope in self._follow(self._store.snapshot()):
                        nursery.start_soon(self._watch, broker, scope)
                    await more.wait()

    @contextmanager
    def _watching(self, look_again: Callable[[Snapshot, Snapshot], None]) -> Iterator[None]:
        end = self._store.watch(look_again)
        try:
            yield
        finally:
            end()
            self._watched.clear()

    def _follow(self, now: Snapshot) -> list[tuple[BrokerState, trio.CancelScope]]:
        """Stop watching brokers that are gone, and return the new ones."""
        lives = {(each.node_id, each.epoch): each for each in now.brokers if each.node_id != self._node_id}
        for life in [each for each in self._watched if each not in lives]:
            self._watched.pop(life).cancel()
        come = {life: trio.CancelScope() for life in lives if life not in self._watched}
        self._watched.update(come)
        return [(lives[life], scope) for life, scope in come.items()]

    async def _watch(self, broker: BrokerState, scope: trio.CancelScope) -> None:
        """Keep a connection to this registration of a broker; remove it if it dies."""
        with scope:
            was_there, retry_seconds = False, RETRY_SECONDS_MIN
            while True:
                began = trio.current_time()
                try:
                    with trio.fail_after(CONNECT_SECONDS_MAX):
                        dialled = await self._dial(*broker.address(self._listener))
                except (OSError, trio.TooSlowError) as error:
                    if was_there and was_refused(error):
                        await self._see_out(broker)
                else:
                    was_there = True
                    await _ended(dialled)
                if trio.current_time() - began > LASTING_SECONDS:
                    retry_seconds = RETRY_SECONDS_MIN
                    continue  # It may be an idle connection that was closed: check at once.
                await trio.sleep(retry_seconds)
                retry_seconds = min(retry_seconds * 2, RETRY_SECONDS_MAX)

    async def _see_out(self, broker: BrokerState) -> None:
        log.warning("a broker's process is gone", node_id=broker.node_id, broker_epoch=broker.epoch)
        try:
            await self._expel(broker)
        except Failed as error:
            log.warning(
                "a dead broker's registration may stay until its lease ends",
                node_id=broker.node_id,
                error=str(error),
            )


async def _ended(dialled: Dialled) -> None:
    """Return when the connection has ended. Nobody sends on it, as there are no requests."""
    try:
        while await dialled.stream.receive_some(1024):
            pass
    except trio.BrokenResourceError:
        return
    finally:
        dialled.socket.close()


def was_refused(error: BaseException) -> bool:
    """Return whether all addresses refused the connection."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return all(isinstance(each, ConnectionRefusedError) for each in cause.exceptions)
    return isinstance(cause or error, ConnectionRefusedError)
