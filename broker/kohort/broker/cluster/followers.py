"""One task per leader that fetches all partitions that this broker follows there.

Source: kafka.server.AbstractFetcherThread, ReplicaFetcherThread, ReplicaFetcherManager.
"""

from collections.abc import Awaitable, Callable

import structlog
import trio

from kohort.broker.cluster.appending import Appending
from kohort.broker.cluster.dialing import Dial, dial_plain
from kohort.broker.cluster.fetcher import Fetcher
from kohort.broker.cluster.log_starts import LogStarts
from kohort.broker.cluster.peer_connection import connected
from kohort.broker.config.current import CurrentConfig
from kohort.broker.partitions.replicas import Replicas
from kohort.broker.runtime.supervisor import Part, Supervisor
from kohort.broker.runtime.turns import Turns
from kohort.protocol.errors import WireError

CONNECT_SECONDS = 5.0

log = structlog.get_logger("kohort.replication")


class Followers:
    """Begins a task for each leader that something is to be fetched from."""

    def __init__(
        self,
        replicas: Replicas,
        appending: Appending,
        supervisor: Supervisor,
        current: CurrentConfig,
        *,
        starts: LogStarts,
        address_of: Callable[[int], tuple[str, int] | None],
        identity: Callable[[], tuple[int, int]],
        turns: Turns,
        dial: Dial = dial_plain,
    ) -> None:
        """`identity` says under which node id and broker epoch this broker fetches.

        `turns` is the loop whose thread they share.
        """
        self._replicas = replicas
        self._appending = appending
        self._starts = starts
        self._supervisor = supervisor
        self._current = current
        self._address_of = address_of
        self._identity = identity
        self._turns = turns
        self._dial = dial
        self._running: set[int] = set()
        self._fetchers: dict[int, Fetcher] = {}  # Leaders with a connection.
        self._changed = trio.Event()
        self._changed_there: dict[int, trio.Event] = {}
        replicas.on_followed = self._followed

    def _followed(self, leader: int) -> None:
        self._changed.set()
        changed = self._changed_there.pop(leader, None)
        if changed is not None:
            changed.set()
        fetcher = self._fetchers.get(leader)
        if fetcher is not None:
            fetcher.other_is_followed()

    def _change_of(self, leader: int) -> trio.Event:
        return self._changed_there.setdefault(leader, trio.Event())

    async def run(self, part: Part) -> None:
        """Run a task for each leader that is followed."""
        while True:
            self._changed = trio.Event()
            for leader in tuple(self._replicas.leaders):
                if leader not in self._running:
                    self._running.add(leader)
                    self._supervisor.start(f"fetches from broker {leader}", self._fetches_from(leader))
            await self._changed.wait()

    def _fetches_from(self, leader: int) -> Callable[[Part], Awaitable[None]]:
        async def fetch(part: Part) -> None:
            await self._fetch_from(leader)

        return fetch

    async def _fetch_from(self, leader: int) -> None:
        """Fetch from one leader while this broker runs; without followed partitions nothing is requested."""
        failed = False
        while True:
            changed = self._change_of(leader)
            address = self._address_of(leader)
            if not self._replicas.followed(leader):
                await changed.wait()
                continue
            try:
                if address is not None:
                    name = f"follower-{self._identity()[0]}"
                    async with connected(address, name, CONNECT_SECONDS, self._turns, self._dial) as peer:
                        if failed:
                            log.info("a leader is reached again", leader=leader)
                            failed = False
                        fetcher = Fetcher(
                            leader,
                            self._replicas,
                            self._appending,
                            self._current,
                            self._identity,
                            starts=self._starts,
                        )
                        self._fetchers[leader] = fetcher
                        try:
                            await fetcher.run(peer, lambda: self._change_of(leader))
                        finally:
                            del self._fetchers[leader]
                    continue
            except (OSError, trio.TooSlowError, trio.BrokenResourceError, WireError) as error:
                if not failed:
                    log.warning("a leader cannot be reached for fetching", leader=leader, error=str(error))
                failed = True
            with trio.move_on_after(self._current.config.replica_fetch_backoff_ms / 1_000):
                await changed.wait()
