"""Requests that wait before they are executed: for a time, or until the test releases them.

While a request waits, later requests of its connection wait behind it, as in Kafka, which executes the
requests of a connection one by one.
"""

import itertools
from collections import deque
from collections.abc import Awaitable
from inspect import isawaitable

import structlog

from kohort.broker.broker import Broker
from kohort.broker.transport.request import Origin, Request
from kohort.protocol.schema import Message
from kohort.testing.clock import MovableClock
from kohort.testing.faults import Answer, Fault, Faults, PausedRequest

log = structlog.get_logger("kohort.testing")


class Pauses:
    """The requests that wait, by connection. The loop's thread only."""

    def __init__(self, faults: Faults, clock: MovableClock) -> None:
        self._faults = faults
        self._clock = clock
        self._numbers = itertools.count()
        self._broker: Broker | None = None
        self._waiting: dict[Origin, deque[PausedRequest]] = {}

    def attach(self, broker: Broker) -> None:
        """Pause the requests of this new broker."""
        self._broker = broker

    def detach(self) -> None:
        """Close the connections with waiting requests: the broker stops. Later requests do not wait."""
        self._broker = None
        for connection in list(self._waiting):
            connection.close()

    def admit(self, asked: PausedRequest) -> Answer:
        """Execute the request and return its answer, or return None if it has to wait."""
        waiting = self._waiting.get(asked.request.connection)
        if waiting is not None:
            waiting.append(asked)
        elif self._pause(asked):
            self._waiting[asked.request.connection] = deque((asked,))
        else:
            return asked.execute()
        return None

    def resume(self, asked: PausedRequest) -> None:
        """Execute the request unless it has to wait again, and then those that waited behind it."""
        connection = asked.request.connection
        waiting = self._waiting.get(connection)
        if waiting is None or waiting[0] is not asked or self._pause(asked):
            return
        self._execute(waiting.popleft())
        while waiting and self._waiting.get(connection) is waiting and not self._pause(waiting[0]):
            self._execute(waiting.popleft())
        if not waiting:
            self._waiting.pop(connection, None)

    def forget(self, connection: Origin) -> None:
        """Drop the requests of a connection that has closed."""
        for each in self._waiting.pop(connection, ()):
            if each.holder is not None:
                each.holder.drop(each)

    def _pause(self, asked: PausedRequest) -> bool:
        """Return whether the request has to wait, and begin to wait."""
        fault = None if self._broker is None else self._faults.take_pause(asked.seen, asked.passed)
        if fault is None:
            return False
        asked.passed.add(fault)
        if fault.hold is not None:
            fault.hold.add(asked)
        else:
            self._delay(asked, fault)
        return True

    def _delay(self, asked: PausedRequest, fault: Fault) -> None:
        assert self._broker is not None
        assert fault.seconds is not None
        key = ("delayed by a test", next(self._numbers))
        due_ms = self._clock.now_ms() + round(fault.seconds * 1_000)
        self._broker.timers.set(key, due_ms, lambda: self.resume(asked))

    def _execute(self, asked: PausedRequest) -> None:
        assert self._broker is not None
        try:
            answer = asked.execute()
        except Exception:  # A supervisor, as the connection is: those behind and beside it go on.
            log.exception("a request that waited failed", api=asked.seen.api)
            asked.request.hang_up()
            return
        if isawaitable(answer):
            self._broker.workers.spawn(_respond, asked.request, answer)
        elif answer is not None:
            asked.request.respond(answer)


async def _respond(request: Request, answer: Awaitable[Message | None]) -> None:
    found = await answer
    if found is not None:
        request.respond(found)
