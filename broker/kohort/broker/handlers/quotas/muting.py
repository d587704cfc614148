"""Connections of clients over their quota: their requests are delayed.

Such a connection is not read, as in Kafka, so that a waiting client uses none of the shared memory.
Requests already received are kept. The loop's thread only.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import structlog

from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.request import Origin, Request

log = structlog.get_logger("kohort.quotas")

YIELD_MS = 50
"""The additional wait of clients after their turn. Others wait a millisecond less for each time that they
were
put back. So among the waiters of one quota the one that has waited longest comes first."""

Ask = Callable[[Any, Request], Any]


class _Held(NamedTuple):
    ask: Ask
    message: Any
    request: Request


class _Muted:
    """One connection that has to wait."""

    __slots__ = ("forget", "held", "put_back", "until_ms")

    def __init__(self, until_ms: int, forget: Callable[[], None]) -> None:
        self.until_ms = until_ms
        self.forget = forget
        self.held: deque[_Held] = deque()
        self.put_back = 0
        """How often that which is held back first was."""


class Muting:
    """The waiting connections, and their kept requests."""

    def __init__(self, timers: Timers, clock: Clock, workers: Workers) -> None:
        self._timers = timers
        self._clock = clock
        self._workers = workers
        self._muted: dict[Origin, _Muted] = {}

    def __len__(self) -> int:
        return len(self._muted)

    def mute(self, connection: Origin, throttle_ms: int) -> None:
        """Keep the requests of the connection for so long."""
        until_ms = self._clock.now_ms() + throttle_ms
        muted = self._muted.get(connection)
        if muted is None:
            forget = partial(self._forget, connection)
            muted = self._muted[connection] = _Muted(until_ms, forget)
            connection.on_close.append(forget)
            connection.mute()
        elif until_ms <= muted.until_ms:
            return
        muted.until_ms = until_ms
        self._timers.set(("muted", connection), until_ms, partial(self._go_on, connection))

    def holds(self, ask: Ask, message: Any, request: Request) -> bool:
        """Keep the request if its connection has to wait; return whether that is so."""
        muted = self._muted.get(request.connection)
        if muted is None:
            return False
        muted.held.append(_Held(ask, message, request))
        return True

    def put_back(self, ask: Ask, message: Any, request: Request, throttle_ms: int) -> None:
        """Keep for longer a request that was kept before, in its position."""
        muted = self._muted[request.connection]
        muted.held.appendleft(_Held(ask, message, request))
        muted.put_back += 1
        self.mute(request.connection, throttle_ms + max(0, YIELD_MS - muted.put_back))

    def _forget(self, connection: Origin) -> None:
        """Forget a connection that closes."""
        self._muted.pop(connection, None)
        self._timers.cancel(("muted", connection))

    def _go_on(self, connection: Origin) -> None:
        """Handle the kept requests, until the connection has to wait again."""
        muted = self._muted[connection]
        while muted.held and self._muted.get(connection) is muted:
            if muted.until_ms > self._clock.now_ms():
                return  # There is a timer for that.
            before = muted.put_back
            self._ask(muted.held.popleft())
            if muted.put_back == before:
                muted.put_back = 0
        if self._muted.get(connection) is muted and muted.until_ms <= self._clock.now_ms():
            del self._muted[connection]
            connection.on_close.remove(muted.forget)
            connection.unmute()

    def _ask(self, held: _Held) -> None:
        try:
            answer = held.ask(held.message, held.request)
        except Exception:  # The supervisor of handlers: one bug costs one connection, not the broker.
            log.exception("a handler failed", api=held.request.api.name, host=held.request.client_host)
            held.request.hang_up()
            return
        if isinstance(answer, Awaitable):
            self._workers.spawn(self._later, held.request, answer)
        elif answer is not None:
            held.request.respond(answer)

    async def _later(self, request: Request, answer: Awaitable[Any]) -> None:
        try:
            found = await answer
        except Exception:
            log.exception("a handler failed", api=request.api.name, host=request.client_host)
            request.hang_up()
            return
        if found is not None:
            request.respond(found)
