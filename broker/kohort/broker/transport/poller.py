"""Polls sockets: with epoll on Linux, kqueue on macOS and the BSDs, poll on other POSIX systems, else select.

    poller = make_poller()
    poller.register(descriptor, READ)
    for descriptor, event in poller.poll(timeout_seconds, events_max): ...

The bit WRITE of an event means that bytes can be sent. Any other bit means that reading returns bytes, the
end, or an error. A descriptor may occur twice, once for each. Names of `select` are used only when a poller
is created, because no system has all three.
"""

import os
import select
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

import trio

READ = 1  # EPOLLIN and POLLIN
WRITE = 4  # EPOLLOUT and POLLOUT
BROKEN = 8 | 16  # EPOLLERR and EPOLLHUP, which need no registration. A kqueue does not report them.
POLL_SECONDS_MAX = 0.25  # The timeout of a poll in a thread, for a poller that trio cannot watch.
VARIABLE = "KOHORT_POLLER"  # Names the poller to use, for tests.

Events = list[tuple[int, int]]


class Poller(Protocol):
    """A set of descriptors with the wanted events."""

    @property
    def poll(self) -> Callable[[float, int], Events]:
        """Return events. The arguments are the timeout in seconds and the largest number of events."""
        ...

    def register(self, descriptor: int, wanted: int, /) -> None:
        """Watch `descriptor` for `wanted`, some of READ and WRITE."""
        ...

    def modify(self, descriptor: int, wanted: int, /) -> None:
        """Change the wanted events; 0 means none."""
        ...

    def unregister(self, descriptor: int, /) -> None:
        """Remove `descriptor`, which is still open."""
        ...

    async def wait(self, seconds: float) -> None:
        """Return when there may be events, or after so many seconds."""
        ...

    def close(self) -> None:
        """Close the poller."""
        ...


class EpollPoller:
    """Linux. Polling costs the same for ten connections and for ten thousand."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.poll: Callable[[float, int], Events] = self._epoll.poll
        self.register = self._epoll.register
        self.modify = self._epoll.modify
        self.unregister = self._epoll.unregister
        self.close = self._epoll.close

    async def wait(self, seconds: float) -> None:
        """Return when there may be events, or after so many seconds."""
        with trio.move_on_after(seconds):
            await trio.lowlevel.wait_readable(self._epoll.fileno())


class Kevent(Protocol):
    """The used part of `select.kevent`."""

    ident: int
    filter: int


class Kqueue(Protocol):
    """The used part of `select.kqueue`."""

    def control(
        self, changes: Iterable[Kevent] | None, events_max: int, timeout: float | None = None, /
    ) -> list[Kevent]:
        """Apply the changes. Return the events."""
        ...

    def fileno(self) -> int:
        """Return its descriptor."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class KqueueModule(Protocol):
    """The names of `select` on systems with kqueue."""

    KQ_FILTER_READ: int
    KQ_FILTER_WRITE: int
    KQ_EV_ADD: int
    KQ_EV_DELETE: int
    kqueue: Callable[[], Kqueue]
    kevent: Callable[[int, int, int], Kevent]


class KqueuePoller:
    """macOS and the BSDs. Reading and writing are two separate filters."""

    def __init__(self, names: KqueueModule | None = None) -> None:
        self._names = names if names is not None else cast(KqueueModule, cast(Any, select))
        self._kqueue = self._names.kqueue()
        self._filters = ((READ, self._names.KQ_FILTER_READ), (WRITE, self._names.KQ_FILTER_WRITE))
        self._wanted: dict[int, int] = {}

    def register(self, descriptor: int, wanted: int) -> None:
        """Watch `descriptor` for `wanted`."""
        self._change(descriptor, 0, wanted)

    def modify(self, descriptor: int, wanted: int) -> None:
        """Change the wanted events."""
        self._change(descriptor, self._wanted[descriptor], wanted)

    def unregister(self, descriptor: int) -> None:
        """Remove `descriptor`."""
        self._change(descriptor, self._wanted[descriptor], 0)
        del self._wanted[descriptor]

    def _change(self, descriptor: int, before: int, wanted: int) -> None:
        self._wanted[descriptor] = wanted
        changes = [
            self._names.kevent(
                descriptor, kind, self._names.KQ_EV_ADD if wanted & bit else self._names.KQ_EV_DELETE
            )
            for bit, kind in self._filters
            if (wanted ^ before) & bit
        ]
        if changes:
            self._kqueue.control(changes, 0)

    def poll(self, timeout_seconds: float, events_max: int) -> Events:
        """Return events. An end or an error is reported by the filters."""
        write = self._names.KQ_FILTER_WRITE
        found = self._kqueue.control(None, events_max, timeout_seconds)
        return [(each.ident, WRITE if each.filter == write else READ) for each in found]

    async def wait(self, seconds: float) -> None:
        """Return when there may be events, or after so many seconds."""
        with trio.move_on_after(seconds):
            await trio.lowlevel.wait_readable(self._kqueue.fileno())

    def close(self) -> None:
        """Close the queue."""
        self._kqueue.close()


class PollPoller:
    """Any POSIX system. Each call of `poll` passes the whole set."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.modify = self._poll.modify
        self.unregister = self._poll.unregister

    def poll(self, timeout_seconds: float, events_max: int) -> Events:
        """Return events. A thread may wait here while the loop's thread changes the set."""
        return self._poll.poll(timeout_seconds * 1_000)[:events_max]

    async def wait(self, seconds: float) -> None:
        """Return when there may be events, or after a while: trio cannot watch it, so a thread polls."""
        await trio.to_thread.run_sync(self.poll, min(seconds, POLL_SECONDS_MAX), 1)

    def close(self) -> None:
        """Do nothing."""


class SelectPoller:
    """Any system. Each call of `poll` passes the whole set, and the system limits its size (POSIX: 1,024)."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def register(self, descriptor: int, wanted: int) -> None:
        """Watch `descriptor` for `wanted`."""
        self._wanted[descriptor] = wanted

    def modify(self, descriptor: int, wanted: int) -> None:
        """Change the wanted events. Raises: KeyError."""
        self._wanted[descriptor]  # It must be registered.
        self._wanted[descriptor] = wanted

    def unregister(self, descriptor: int) -> None:
        """Remove `descriptor`. Raises: KeyError."""
        del self._wanted[descriptor]

    def poll(self, timeout_seconds: float, events_max: int) -> Events:
        """Return events. A thread may wait here while the loop's thread changes the set."""
        wanted = self._wanted.copy()
        readers = [each for each, events in wanted.items() if events & READ]
        writers = [each for each, events in wanted.items() if events & WRITE]
        if not wanted:
            time.sleep(timeout_seconds)  # Windows refuses empty sets.
            return []
        try:
            readable, writable, _ = select.select(readers, writers, (), timeout_seconds)
        # The loop's thread has closed a descriptor: the next call goes without it.
        except (OSError, ValueError):
            return []
        return ([(each, READ) for each in readable] + [(each, WRITE) for each in writable])[:events_max]

    async def wait(self, seconds: float) -> None:
        """Return when there may be events, or after a while: trio cannot watch it, so a thread polls."""
        await trio.to_thread.run_sync(self.poll, min(seconds, POLL_SECONDS_MAX), 1)

    def close(self) -> None:
        """Do nothing."""


POLLERS: dict[str, tuple[str, Callable[[], Poller]]] = {
    "epoll": ("epoll", EpollPoller),
    "kqueue": ("kqueue", KqueuePoller),
    "poll": ("poll", PollPoller),
    "select": ("select", SelectPoller),
}
"""The pollers by name, the best first: the name in `select` that each needs, and its class."""


def make_poller(name: str | None = None) -> Poller:
    """Return the poller `name`, or the one in KOHORT_POLLER, or the best of this system.

    Raises: OSError if the system does not have it.
    """
    name = name or os.environ.get(VARIABLE)
    for each, (needed, make) in POLLERS.items():
        if name in (each, None) and hasattr(select, needed):
            return make()
    raise OSError(f"this system has no {name or 'poller'}")
