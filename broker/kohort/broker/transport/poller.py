"""Which sockets are ready: epoll on Linux, kqueue on macOS and the BSDs, poll anywhere.

    poller = make_poller()
    poller.register(descriptor, READ)
    for descriptor, event in poller.poll(timeout_seconds, events_max): ...

An event has WRITE where bytes may be sent; any other bit says that reading will tell something: bytes, an
end, or an error. A descriptor may come twice, once for each. Nothing here is looked up in `select` before a
poller is made, since no system has all three.
"""

import os
import select
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

READ = 1  # As EPOLLIN and POLLIN,
WRITE = 4  # as EPOLLOUT and POLLOUT: what those two answer is passed on untouched.
BROKEN = 8 | 16  # EPOLLERR and EPOLLHUP: told whether or not it was asked for. A kqueue has its filters only.
VARIABLE = "KOHORT_POLLER"  # Names the poller to use, for tests.

Events = list[tuple[int, int]]


class Poller(Protocol):
    """A set of descriptors, each with what is wanted of it."""

    @property
    def poll(self) -> Callable[[float, int], Events]:
        """Return who is ready, after so many seconds at most, and no more events at once than asked for."""
        ...

    def register(self, descriptor: int, wanted: int, /) -> None:
        """Watch `descriptor` for `wanted`, some of READ and WRITE."""
        ...

    def modify(self, descriptor: int, wanted: int, /) -> None:
        """Watch for something else from now on; for nothing where `wanted` is 0."""
        ...

    def unregister(self, descriptor: int, /) -> None:
        """Forget `descriptor`, which is still open."""
        ...

    def fileno(self) -> int | None:
        """Return a descriptor that is readable while somebody is ready, or None where there is none."""
        ...

    def close(self) -> None:
        """Let the set go."""
        ...


class EpollPoller:
    """Linux: the set itself is a descriptor, and costs the same for ten connections and ten thousand."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self.poll: Callable[[float, int], Events] = self._epoll.poll
        self.register = self._epoll.register
        self.modify = self._epoll.modify
        self.unregister = self._epoll.unregister
        self.close = self._epoll.close

    def fileno(self) -> int:
        """Return the descriptor of the set."""
        return self._epoll.fileno()


class Kevent(Protocol):
    """What a `select.kevent` tells."""

    ident: int
    filter: int


class Kqueue(Protocol):
    """The part of a `select.kqueue` that is used."""

    def control(
        self, changes: Iterable[Kevent] | None, events_max: int, timeout: float | None = None, /
    ) -> list[Kevent]:
        """Make the changes; return the events."""
        ...

    def fileno(self) -> int:
        """Return its descriptor."""
        ...

    def close(self) -> None:
        """Let it go."""
        ...


class KqueueModule(Protocol):
    """The names that `select` has where there is a kqueue."""

    KQ_FILTER_READ: int
    KQ_FILTER_WRITE: int
    KQ_EV_ADD: int
    KQ_EV_DELETE: int
    kqueue: Callable[[], Kqueue]
    kevent: Callable[[int, int, int], Kevent]


class KqueuePoller:
    """macOS and the BSDs: a filter for reading and one for writing, each added and deleted by itself."""

    def __init__(self, names: KqueueModule | None = None) -> None:
        self._names = names if names is not None else cast(KqueueModule, cast(Any, select))
        self._kqueue = self._names.kqueue()
        self._filters = ((READ, self._names.KQ_FILTER_READ), (WRITE, self._names.KQ_FILTER_WRITE))
        self._wanted: dict[int, int] = {}

    def register(self, descriptor: int, wanted: int) -> None:
        """Watch `descriptor` for `wanted`."""
        self._change(descriptor, 0, wanted)

    def modify(self, descriptor: int, wanted: int) -> None:
        """Watch for something else from now on."""
        self._change(descriptor, self._wanted[descriptor], wanted)

    def unregister(self, descriptor: int) -> None:
        """Forget `descriptor`."""
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
        """Return who is ready; an end or an error comes with the filter that it ends."""
        write = self._names.KQ_FILTER_WRITE
        found = self._kqueue.control(None, events_max, timeout_seconds)
        return [(each.ident, WRITE if each.filter == write else READ) for each in found]

    def fileno(self) -> int:
        """Return the descriptor of the queue, which another kqueue or a poll can watch."""
        return self._kqueue.fileno()

    def close(self) -> None:
        """Let the queue go."""
        self._kqueue.close()


class PollPoller:
    """Any POSIX system: `poll`, which is handed the whole set at each call."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.modify = self._poll.modify
        self.unregister = self._poll.unregister

    def poll(self, timeout_seconds: float, events_max: int) -> Events:
        """Return who is ready. A thread may wait here while the loop's thread changes the set."""
        return self._poll.poll(timeout_seconds * 1_000)[:events_max]

    def fileno(self) -> None:
        """Return None: there is nothing that another poller could watch."""

    def close(self) -> None:
        """There is nothing to let go."""


POLLERS: dict[str, tuple[str, Callable[[], Poller]]] = {
    "epoll": ("epoll", EpollPoller),
    "kqueue": ("kqueue", KqueuePoller),
    "poll": ("poll", PollPoller),
}
"""By name, the best first: what `select` must have for it, and how it is made."""


def make_poller(name: str | None = None) -> Poller:
    """Return the poller of that name, or that KOHORT_POLLER names, or the best that this system has.

    Raises: OSError if the system does not have it.
    """
    name = name or os.environ.get(VARIABLE)
    for each, (needed, make) in POLLERS.items():
        if name in (each, None) and hasattr(select, needed):
            return make()
    raise OSError(f"there is no {name or 'poller'} on this system")
