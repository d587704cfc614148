"""A client's process as a coroutine: it asks and sleeps in virtual time, and may be stopped anywhere."""

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from random import Random
from typing import Any, Protocol

from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message
from tests.simulation.network import Host, Link, Sent
from tests.simulation.schedule import Action, Schedule

LOOK_UP_MS = 30
Resume = Callable[[Any], None]


class Around(Protocol):
    """What a client's process needs of its world."""

    schedule: Schedule

    def connect(self, host: Host, client_id: str, on_closed: Action) -> Link | None:
        """Return a connection to the broker, None where there is none to be had."""
        ...

    def note(self, text: str) -> None:
        """Write a line into the trace."""
        ...


class Sleep:
    """What a process awaits to let time pass."""

    def __init__(self, duration_ms: int) -> None:
        self.duration_ms = duration_ms

    def __await__(self) -> Generator["Sleep", Any, Any]:
        return (yield self)


class Ask:
    """What a process awaits to be answered: it gets the answer, or None where none came in time."""

    def __init__(
        self, api: str, version: int, message: Message, patience_ms: int, on_sent: Callable[[Sent], None]
    ) -> None:
        self.api = BY_NAME[api]
        self.version = version
        self.message = message
        self.patience_ms = patience_ms
        self.on_sent = on_sent

    def __await__(self) -> Generator["Ask", Any, Message | None]:
        return (yield self)


class Process:
    """One client, on one connection. After a silence it takes another connection.

    What is under way on the old one may still arrive; where the process `is_careful`, only what it names in
    `MAY_BE_LATE` does.
    """

    MAY_BE_LATE: frozenset[str] = frozenset()

    def __init__(self, world: Around, name: str, random: Random) -> None:
        self.name = name
        self.host = Host(name)
        self.stopped = False
        self.is_careful = False
        self._world = world
        self._schedule = world.schedule
        self._random = random
        self._link: Link | None = None
        self._task: Coroutine[Any, Any, None] | None = None
        self._resting_until_ms = 0
        self._give_up: Action | None = None  # Of what was asked last.
        self._asked = ""

    def begin(self) -> None:
        """Run from now on."""
        self._task = self.run()
        self._later(0, partial(self._advance, None))

    async def run(self) -> None:
        """Do what this process is for."""
        raise NotImplementedError

    def kill(self) -> None:
        """End without a word; what it has sent may arrive yet."""
        self.stopped = True
        if self._link is not None:
            self._link.hang_up()

    def rest(self, duration_ms: int) -> None:
        """Stand still, as in a long garbage collection."""
        self._resting_until_ms = max(self._resting_until_ms, self._schedule.time_ms + duration_ms)

    def calm(self) -> None:
        """Go on, on a network that is whole."""
        self._resting_until_ms = 0
        if self._link is not None:
            self._link.reset()

    def hold(self, duration_ms: int) -> None:
        """Let what is sent on this connection arrive that much later."""
        if self._link is not None:
            self._link.hold(duration_ms)

    def lose_connection(self) -> None:
        """Let the connection carry nothing any more, and tell nobody."""
        if self._link is not None:
            self._link.die()

    def ended(self) -> None:
        """Hear that `run` has returned."""

    # -- the coroutine --------------------------------------------------------------------------------------

    def _later(self, delay_ms: int, action: Action) -> None:
        def act() -> None:
            if self.stopped:
                return
            rest_ms = self._resting_until_ms - self._schedule.time_ms
            if rest_ms > 0:
                self._schedule.after(rest_ms, act)
            else:
                action()

        self._schedule.after(delay_ms, act)

    def _advance(self, result: Any) -> None:
        assert self._task is not None
        try:
            wanted = self._task.send(result)
        except StopIteration:
            self.kill()
            self.ended()
            return
        if isinstance(wanted, Sleep):
            self._later(wanted.duration_ms, partial(self._advance, None))
        else:
            assert isinstance(wanted, Ask)
            self._put(wanted)

    def _put(self, wanted: Ask) -> None:
        link = self._connected()
        if link is None:
            self._later(LOOK_UP_MS, partial(self._advance, None))
            return
        resume, self._asked = self._once(), wanted.api.name
        self._give_up = partial(resume, None)
        wanted.on_sent(link.send(wanted.api, wanted.version, wanted.message, resume))
        self._schedule.after(wanted.patience_ms, partial(self._lose_patience, link, resume))

    def _once(self) -> Resume:
        """Return what goes on with the first result that it is given: an answer, or that there is none."""
        is_over = False

        def resume(result: Any) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                if result is None:
                    self._let_go()
                self._later(0, partial(self._advance, result))

        return resume

    def _lose_patience(self, link: Link, resume: Resume) -> None:
        if self._link is link and not self.stopped:
            resume(None)

    def _connected(self) -> Link | None:
        if self._link is not None and self._link.closed:
            self._link = None
        if self._link is None:
            self._link = self._world.connect(self.host, self.name, self._closed)
        return self._link

    def _closed(self) -> None:
        """Hear that the broker has closed the connection: what is awaited does not come."""
        if self._give_up is not None:
            self._give_up()

    def _let_go(self) -> None:
        """Give the connection up."""
        if self._link is not None:
            if self.is_careful and self._asked not in self.MAY_BE_LATE:
                self._link.die()
            self._link.hang_up()
            self._link = None
