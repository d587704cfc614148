"""Barriers: requests that a test holds until it releases them."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from anyio import to_thread

from kohort.broker.broker import Broker
from kohort.testing.errors import BrokerFailed, NotInTime
from kohort.testing.faults import Fault, Faults, PausedRequest
from kohort.testing.pauses import Pauses
from kohort.testing.requests import Requests, SeenRequest, check_api
from kohort.testing.waiting import TIMEOUT_SECONDS


class HeldRequests:
    """The requests that `broker.hold` holds within its `with` block, the oldest first. Any thread.

    The end of the block executes what is still held.
    """

    def __init__(
        self,
        api: str,
        client_id: str | None,
        pauses: Pauses,
        faults: Faults,
        *,
        call: Callable[[Callable[[Broker], object]], object],
        report: Callable[[], str],
    ) -> None:
        """`call` runs a function in the loop's thread. `report` is the broker's.

        Raises: ValueError for an unknown API.
        """
        check_api(api)
        self._fault = Fault(api, 1, client_id, hold=self)
        self._pauses = pauses
        self._faults = faults
        self._call = call
        self._report = report
        self._held: list[PausedRequest] = []
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        self._faults.order(self._fault)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._faults.withdraw(self._fault)
        try:
            self.release_all()
        except BrokerFailed:  # It has stopped, and has closed the connections of held requests.
            self._held.clear()

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        return f"<{self._words()} holds {len(self)} requests>"

    def _words(self) -> str:
        client_id = self._fault.client_id
        return f"hold({self._fault.api!r}{'' if client_id is None else f', client={client_id!r}'})"

    @property
    def requests(self) -> Requests:
        """The requests that are held now, the oldest first. It has none whose client has disconnected."""
        with self._changed:
            return Requests(tuple(each.seen for each in self._held))

    def _wait(self, count: int, timeout: float) -> Requests:
        with self._changed:
            is_enough = self._changed.wait_for(lambda: len(self._held) >= count, timeout)
        if not is_enough:
            seen = f"{self._words()} holds {len(self)} requests, not {count}"
            raise NotInTime(f"not within {timeout:g} s: {seen}\n\n{self._report()}")
        return self.requests

    def release(self) -> SeenRequest:
        """Execute the request that was held first, and return it. It may be held again by another hold.

        Raises: LookupError if none is held, BrokerFailed while the broker is stopped.
        """
        released = self._release(1)
        if not released:
            raise LookupError(f"{self._words()} holds no request now: wait for one with held.wait(1)")
        return released[0]

    def release_all(self) -> Requests:
        """Execute the requests that are held now, and return them. Later requests are held.

        Raises: BrokerFailed while the broker is stopped.
        """
        return self._release(None)

    def _release(self, count: int | None) -> Requests:
        released: list[PausedRequest] = []

        def resume(broker: Broker) -> None:
            with self._changed:
                released.extend(self._held[:count])
                del self._held[:count]
            for each in released:
                each.holder = None
                self._pauses.resume(each)

        self._call(resume)  # Also if none is held: the loop may be about to add one.
        return Requests(tuple(each.seen for each in released))

    # -- the loop's thread --------------------------------------------------------------------------------

    def add(self, asked: PausedRequest) -> None:
        """Hold the request."""
        asked.holder = self
        with self._changed:
            self._held.append(asked)
            self._changed.notify_all()

    def drop(self, asked: PausedRequest) -> None:
        """Forget the request: its connection has closed."""
        with self._changed:
            if asked in self._held:
                self._held.remove(asked)


class Hold(HeldRequests):
    """The requests that `Broker.hold` holds.

    with broker.hold("OffsetCommit", client="billing") as held:
        held.wait(1)
        ...
        held.release()
    """

    def wait(self, count: int = 1, timeout: float = TIMEOUT_SECONDS) -> Requests:
        """Return the held requests as soon as `count` or more are held at once.

        Raises: NotInTime after `timeout` real seconds, with the broker's report.
        """
        return self._wait(count, timeout)


class AsyncHold(HeldRequests):
    """The requests that `AsyncBroker.hold` holds. The block is a plain `with`."""

    async def wait(self, count: int = 1, timeout: float = TIMEOUT_SECONDS) -> Requests:
        """Return the held requests as soon as `count` or more are held at once.

        Raises: NotInTime after `timeout` real seconds, with the broker's report.
        """
        return await to_thread.run_sync(self._wait, count, timeout, abandon_on_cancel=True)
