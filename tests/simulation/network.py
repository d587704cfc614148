"""The virtual network: connections that keep the order of what is sent on them, and nothing else.

Two connections of one client overtake each other freely. A host that is cut off either finds everything
that was under way delivered late, as TCP does when a network heals in time, or its connections are dead
and only a timeout tells.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from kohort.broker.transport.permissions import ALLOW_ALL
from kohort.broker.transport.request import ANONYMOUS, ReceivedRequest, Request
from kohort.protocol.registry import Api
from kohort.protocol.schema import Message
from tests.simulation.schedule import Schedule

if TYPE_CHECKING:
    from tests.simulation.server import Server

SLOW_ONE_IN = 200
SLOW_MS_MAX = 1_500
DELAY_MS_MAX = 8
Answered = Callable[[Message], None]


class Host:
    """Where a client runs: it can be cut off."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cut_until_ms = 0


class Network:
    """How long things take on their way."""

    def __init__(self, schedule: Schedule, random: Random) -> None:
        self.schedule = schedule
        self._dice = random.random

    def arrival_ms(self, host: Host, not_before_ms: int) -> int:
        """Return when what is sent now arrives: not before what was sent before it."""
        dice = self._dice()
        delay_ms = int(dice * DELAY_MS_MAX)
        if dice < 1 / SLOW_ONE_IN:
            delay_ms = int(dice * SLOW_ONE_IN * SLOW_MS_MAX)
        return max(self.schedule.time_ms + delay_ms, not_before_ms, host.cut_until_ms)


class Sent(ReceivedRequest):
    """A request on its way, and who waits for its answer."""

    __slots__ = ("allowed", "arrived_ms", "message", "on_answer", "order", "reply")

    def __init__(
        self,
        link: "Link",
        api: Api,
        version: int,
        *,
        number: int,
        client_id: str,
        message: Message,
        on_answer: Answered,
    ) -> None:
        super().__init__(link, api, version, number, client_id)  # type: ignore[arg-type]  # stands for a socket
        self.message = message
        self.on_answer = on_answer
        self.reply: Message | None = None
        self.arrived_ms = 0
        self.order = 0
        self.allowed = False


class Link:
    """One connection between a client and one life of the broker: the broker's `Connection` as well."""

    def __init__(
        self, network: Network, server: "Server", host: Host, client_id: str, on_closed: Callable[[], None]
    ) -> None:
        self.network = network
        self.client_host = f"/{host.name}"
        self.principal = ANONYMOUS
        self.listener = 0
        self.permissions = ALLOW_ALL
        self.on_close: list[Callable[[], None]] = []
        self.closed = False  # At the client's end.
        self.pending: deque[Sent] = deque()
        self._server = server
        self._host = host
        self._client_id = client_id
        self._on_closed = on_closed
        self._dead = False
        self._shut = False  # At the broker's end.
        self._told_shut = False
        self._last_in_ms = 0
        self._last_out_ms = 0
        server.links[self] = None

    # -- the client's end -------------------------------------------------------------------------------

    def send(self, api: Api, version: int, message: Message, on_answer: Answered) -> Sent:
        """Send a request; `on_answer` gets the answer, if one ever comes."""
        number = self._server.next_request_number()
        sent = Sent(
            self, api, version, number=number, client_id=self._client_id, message=message, on_answer=on_answer
        )
        if not self._dead:
            self._last_in_ms = self.network.arrival_ms(self._host, self._last_in_ms)
            self.network.schedule.at(self._last_in_ms, partial(self._arrive, sent))
        return sent

    def hang_up(self) -> None:
        """Close the client's end; the broker hears of it behind all that was sent."""
        self.closed = True
        self._server.links.pop(self, None)
        schedule = self.network.schedule
        schedule.at(max(self._last_in_ms, schedule.time_ms), self._hear_of_clients_end)

    def hold(self, duration_ms: int) -> None:
        """Let what is sent from now on arrive that much later; other connections overtake it."""
        self._last_in_ms = max(self._last_in_ms, self.network.schedule.time_ms + duration_ms)

    def reset(self) -> None:
        """Let the client hear that a connection that died is dead, now that the network is whole again."""
        if self._dead and not self.closed:
            self.closed = True
            self._on_closed()

    def die(self) -> None:
        """Carry nothing any more, and tell nobody."""
        self._dead = True

    def _arrive(self, sent: Sent) -> None:
        if not self._dead and not self._shut and self._server.alive:
            sent.arrived_ms = self.network.schedule.time_ms
            self.pending.append(sent)
            self._server.receive(sent)

    def _deliver(self, sent: Sent, message: Message) -> None:
        if not self.closed and not self._dead:
            sent.on_answer(message)

    def _hear_of_end(self) -> None:
        if not self.closed and not self._dead:
            self.closed = True
            self._on_closed()

    # -- the broker's end -------------------------------------------------------------------------------

    def _hear_of_clients_end(self) -> None:
        if not self._dead and not self._shut and self._server.alive:
            self._told_closed()

    def _told_closed(self) -> None:
        if not self._told_shut:
            self._told_shut = True
            for action in tuple(self.on_close):
                action()

    def complete(self, request: Request, message: Message) -> None:
        """Take an answer, and send it when all before it have been."""
        assert isinstance(request, Sent)
        if not self._server.alive:
            return  # It has died in the middle of this round.
        self._server.answered(request, message)
        request.reply = message
        pending = self.pending
        while pending and (reply := pending[0].reply) is not None and not self._shut:
            first = pending.popleft()
            self._last_out_ms = self.network.arrival_ms(self._host, self._last_out_ms)
            self.network.schedule.at(self._last_out_ms, partial(self._deliver, first, reply))

    def close(self) -> None:
        """Close the broker's end; the client hears of it a little later."""
        if not self._shut:
            self._shut = True
            self._server.links.pop(self, None)
            self._told_closed()
            self._last_out_ms = self.network.arrival_ms(self._host, self._last_out_ms)
            self.network.schedule.at(self._last_out_ms, self._hear_of_end)
