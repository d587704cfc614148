"""Asks other brokers, over connections that are kept for the next question."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import trio

from kohort.broker.cluster.dialing import Dial, Dialled, dial_plain
from kohort.broker.cluster.peer_connection import PeerConnection
from kohort.broker.runtime.other_brokers import Unreachable
from kohort.broker.runtime.turns import NO_TURNS, Turns
from kohort.protocol.errors import WireError
from kohort.protocol.schema import Message

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0  # Then it is asked again, from the leader by then.
IDLE_CONNECTIONS_MAX = 4  # To each broker.

AnswerT = TypeVar("AnswerT", bound=Message)


class Address(NamedTuple):
    """Where a broker listens for others."""

    host: str
    port: int


class _Kept(NamedTuple):
    dialled: Dialled
    peer: PeerConnection


class KeptConnections:
    """The idle connections of this broker to others. The loop's thread."""

    def __init__(
        self, node_id: int, address_of: Callable[[int], tuple[str, int] | None], client_id: str
    ) -> None:
        self.node_id = node_id
        self._client_id = client_id
        self.turns: Turns = NO_TURNS
        """The loop in whose thread answers are waited for."""
        self.dial: Dial = dial_plain
        self._address_of = address_of
        self._idle: dict[Address, list[_Kept]] = {}

    async def ask(self, node_id: int, request: Message, answer: type[AnswerT], version: int) -> AnswerT:
        """Return the answer of the broker with that id. Raises: Unreachable."""
        address = self._address_of(node_id)
        if address is None:
            raise Unreachable(f"broker {node_id} is not there")
        try:
            with trio.fail_after(ANSWER_SECONDS):
                return await self._ask(Address(*address), request, answer, version)
        except (OSError, trio.TooSlowError, trio.BrokenResourceError, WireError) as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error

    async def _ask(self, address: Address, request: Message, answer: type[AnswerT], version: int) -> AnswerT:
        """Ask over a connection that was kept, over a new one where that has ended meanwhile."""
        idle = self._idle.setdefault(address, [])
        while idle:
            try:
                return await self._over(idle.pop(), idle, request, answer, version)
            except (OSError, trio.BrokenResourceError):
                continue  # The request may be repeated.
        with trio.fail_after(CONNECT_SECONDS):
            dialled = await self.dial(*address)
        fresh = _Kept(dialled, PeerConnection(dialled, self._client_id, self.turns))
        return await self._over(fresh, idle, request, answer, version)

    async def _over(
        self, kept: _Kept, idle: list[_Kept], request: Message, answer: type[AnswerT], version: int
    ) -> AnswerT:
        is_whole = False
        try:
            found = await kept.peer.ask(request, answer, version)
            is_whole = True
            return found
        finally:
            if is_whole and len(idle) < IDLE_CONNECTIONS_MAX:
                idle.append(kept)
            else:
                kept.dialled.socket.close()  # Without a pause: this may be a task that was cancelled.
