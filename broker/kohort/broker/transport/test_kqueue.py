"""A stand-in for kqueue, over epoll, with the rules of its manual page: what a Linux machine can show.

A filter is added and deleted by itself, and deleting one that is not there is an error; each filter that
is ready is an event of its own; an end of the stream makes the filters that are there ready, and is told
to nobody who has none.
"""

import errno
import os
import select
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from kohort.broker.transport.poller import READ, KqueuePoller


@dataclass
class FakeKevent:
    ident: int
    filter: int
    flags: int = 0


class FakeKqueue:
    """The filters that were added, in an epoll set of their own."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._filters: dict[int, set[int]] = {}

    def fileno(self) -> int:
        return self._epoll.fileno()

    def close(self) -> None:
        self._epoll.close()

    def control(
        self, changes: Iterable[FakeKevent] | None, events_max: int, timeout: float | None = None, /
    ) -> list[FakeKevent]:
        for change in changes or ():
            self._change(change)
        if not events_max:
            return []
        found: list[FakeKevent] = []
        for descriptor, event in self._epoll.poll(-1 if timeout is None else timeout):
            ended = event & (select.EPOLLHUP | select.EPOLLERR)
            for kind, bit in ((FakeSelect.KQ_FILTER_READ, 1), (FakeSelect.KQ_FILTER_WRITE, 4)):
                if kind in self._filters[descriptor] and event & (bit | ended):
                    found.append(FakeKevent(descriptor, kind))
        return found[:events_max]

    def _change(self, change: FakeKevent) -> None:
        os.fstat(change.ident)  # Raises EBADF, as kevent does.
        filters = self._filters.setdefault(change.ident, set())
        before = bool(filters)
        if change.flags == FakeSelect.KQ_EV_ADD:
            filters.add(change.filter)
        elif change.filter in filters:
            filters.discard(change.filter)
        else:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        wanted = (1 if FakeSelect.KQ_FILTER_READ in filters else 0) | (
            4 if FakeSelect.KQ_FILTER_WRITE in filters else 0
        )
        if not before:
            self._epoll.register(change.ident, wanted)
        elif not filters:
            self._epoll.unregister(change.ident)
            del self._filters[change.ident]
        else:
            self._epoll.modify(change.ident, wanted)


class FakeSelect:
    """`select` as macOS has it, with the numbers of its headers."""

    KQ_FILTER_READ = -1
    KQ_FILTER_WRITE = -2
    KQ_EV_ADD = 1
    KQ_EV_DELETE = 2
    kqueue = FakeKqueue
    kevent = FakeKevent


def test_only_changes_are_sent_to_kqueue() -> None:
    told: list[tuple[int, int]] = []

    class Listening(FakeKqueue):
        def _change(self, change: FakeKevent) -> None:
            told.append((change.filter, change.flags))

    class Names(FakeSelect):
        kqueue = Listening

    poller = KqueuePoller(cast(Any, Names()))
    poller.register(7, READ)
    poller.modify(7, READ)
    assert told == [(-1, 1)]
    poller.modify(7, 4)
    assert told[1:] == [(-1, 2), (-2, 1)]
    poller.modify(7, 0)
    poller.unregister(7)
    assert told[3:] == [(-2, 2)]


def test_a_filter_that_is_not_there_cannot_be_deleted() -> None:
    """The stand-in is as strict as the system, so that a wrong change shows."""
    queue = FakeKqueue()
    with pytest.raises(FileNotFoundError):
        queue.control([FakeKevent(0, FakeSelect.KQ_FILTER_READ, FakeSelect.KQ_EV_DELETE)], 0)
    queue.close()
