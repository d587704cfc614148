"""One client's connection: what a `Peer` has come to, carried over a transport, in turns.

Nothing here blocks. A turn takes what has arrived, hands over every request in it that there is room for,
and is short: a connection that has more to do, or a great deal to send, goes on in the next round, when
the others have had theirs. One that may not go on is not read until there is room again.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.transport.dispatch import Handle, Handlers
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.in_flight import SHARE_BYTES_MIN, InFlight
from kohort.broker.transport.load import Load
from kohort.broker.transport.peer import Peer
from kohort.broker.transport.permissions import Permissions
from kohort.broker.transport.request import ANONYMOUS, ReceivedRequest, Request
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.errors import WireError
from kohort.protocol.schema import Message

RECEIVE_BYTES = 65_536
RECEIVES_PER_TURN = 8  # Then the others have their turn: one busy client starves nobody.
REQUESTS_PER_LOOK = 8  # After so many requests of one turn the clock is looked at.
SEND_BYTES_PER_TURN = 4 * 1024 * 1024
NOTED_STEP_BYTES = 4_096  # What `InFlight` may be off by, for each connection.
NOTED_BYTES_MIN = 65_536  # Less than this is told to `InFlight` when the round's answers have been sent.


class Driver(Protocol):
    """The loop that a connection lives in."""

    now_ms: int
    """As of the round under way."""
    handlers: Handlers
    """Who answers, by API key; it has all that there are."""
    requests: defaultdict[int, int]
    """How many were handed over, by API key."""
    in_flight: InFlight
    log: ThrottledLog
    permissions: Permissions
    """Those of requests that no authorizer looks at."""

    def touch(self, connection: "Connection", /) -> None:
        """Send the connection's answers at the end of this round, or in one of their own."""
        ...

    def go_on_later(self, connection: "Connection", /) -> None:
        """Let the connection go on in the next round, though nothing new has arrived."""
        ...

    def elapsed_ms(self) -> int:
        """Return the elapsed time now, within a round."""
        ...

    def is_round_long(self) -> bool:
        """Return whether the round under way has taken so long that whoever can wait should."""
        ...

    def watch(self, connection: "Connection", /) -> None:
        """Wait for what the connection wants next: reading unless paused, writing where bytes wait."""
        ...

    def forget(self, connection: "Connection", /) -> None:
        """Stop watching a connection that closes."""
        ...

    def spawn(self, request: Request, answer: Awaitable[Message | None], /) -> None:
        """Let a slow handler run as a task of its own."""
        ...

    def warm(self, connection: "Connection", piece: FileRange, /) -> None:
        """Have a worker read the range's next stretch; then call `connection.warmed`."""
        ...

    def malformed(self, connection: "Connection", error: WireError, /) -> None:
        """Note bytes that were no request; the connection is closed."""
        ...

    def lost(self, connection: "Connection", error: OSError, /) -> None:
        """Note that a client went away in the middle of something."""
        ...


class Transport(Protocol):
    """What carries a connection's bytes. Nothing in it blocks: BlockingIOError says that it would have to."""

    file_descriptor: int

    @property
    def receive(self) -> Callable[[int], bytes]:
        """Return at most so many bytes, none at the end. Raises: OSError."""
        ...

    @property
    def send(self) -> Callable[[bytes | memoryview], int]:
        """Send the first bytes; return how many. Raises: OSError."""
        ...

    def receive_into(self, view: memoryview) -> int:
        """Fill `view` with what has arrived; return how many bytes. Raises: OSError."""
        ...

    def send_range(self, piece: FileRange) -> int:
        """Send the next stretch of a file's range; return how many bytes were taken. Raises: OSError."""
        ...

    def close(self) -> None:
        """Close at once."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Connection:
    """The state of one connection; it is driven by the reactor and lives in the loop's thread."""

    __slots__ = (
        "_driver",
        "_load",
        "_noted_bytes",
        "_transport",
        "_warming",
        "client_host",
        "client_software",
        "closed",
        "counted_in",
        "counted_out",
        "file_descriptor",
        "handlers",
        "host",
        "is_ending",
        "listener",
        "name",
        "on_close",
        "paused",
        "peer",
        "permissions",
        "principal",
        "touched",
        "wants_write",
    )

    def __init__(
        self,
        driver: Driver,
        transport: Transport,
        address: tuple[str, int],
        frame_bytes_max: int,
        listener: int = 0,
    ) -> None:
        self._driver = driver
        self._transport = transport
        self._noted_bytes = 0  # What `InFlight` has been told that this connection holds.
        self._warming = False  # Whether a worker reads what is to be sent next.
        self.peer = Peer(
            self, driver.in_flight.allowance, frame_bytes_max=frame_bytes_max, now_ms=driver.now_ms
        )
        self.file_descriptor = transport.file_descriptor
        self.name = f"{address[0]}:{address[1]}"
        self.host = address[0]
        self.client_host = f"/{address[0]}"
        self.client_software = ""
        self.principal = ANONYMOUS
        self.handlers: dict[int, Handle] = driver.handlers
        """Who answers this client: it may have to say who it is before all others do."""
        self.listener = listener
        self.permissions: Permissions = driver.permissions
        self.closed = False
        self.is_ending = False  # Whether nothing more is taken, since the broker stops.
        self.touched = False  # Whether the reactor will send for it at the end of its round.
        self.paused = False
        self.wants_write = False
        self.counted_in = 0  # Bytes that the counters have been told of.
        self.counted_out = 0
        self.on_close: list[Callable[[], None]] = []
        self._load = Load()

    # -- what arrives -------------------------------------------------------------------------------------

    def on_readable(self) -> None:
        """Take what has arrived and hand over every request in it that there is room for."""
        if self.paused:  # Since this round's events were asked for.
            return
        try:
            if (not self.peer.frames or self._hand_over()) and self._receive():
                receives_left = RECEIVES_PER_TURN - 1
                while receives_left and self._receive():
                    receives_left -= 1
        except BlockingIOError:
            pass
        except WireError as error:
            self._driver.malformed(self, error)
            self.close()
        except OSError as error:
            self._driver.lost(self, error)
            self.close()
        if not self.touched or self.peer.held_bytes > NOTED_BYTES_MIN:
            change_bytes = self.peer.held_bytes - self._noted_bytes
            if not -NOTED_STEP_BYTES < change_bytes < NOTED_STEP_BYTES:
                self._note()

    def go_on(self) -> None:
        """Hand over what arrived in an earlier turn; read again if all of it was."""
        if self.closed:
            return
        if self.peer.deferred:
            self._touch()
        try:
            may_read = self._hand_over()
        except WireError as error:
            self._driver.malformed(self, error)
            self.close()
            return
        if may_read:
            self.peer.resumed(self._driver.now_ms)  # That it was not read meanwhile was our doing.
            self.resume_if_possible()
        self._note()

    def _receive(self) -> bool:
        """Take one `recv`; return whether to go on with the next. Raises: WireError, OSError."""
        peer = self.peer
        if not peer.buffer_bytes:
            is_scarce = self._driver.in_flight.allowance.is_scarce
            data = self._transport.receive(SHARE_BYTES_MIN if is_scarce else RECEIVE_BYTES)
            count = len(data)
            more = count == RECEIVE_BYTES
            if count:
                peer.receive(data, self._driver.now_ms)
        else:
            view = peer.buffer()
            assert view is not None
            count = self._transport.receive_into(view)
            more = count == len(view) or count >= RECEIVE_BYTES
            view.release()
            if count:
                peer.filled(count, self._driver.now_ms)
        if not count:
            self.close()
            return False
        return self._hand_over() and more

    def _hand_over(self) -> bool:
        """Give every request that there is room for to its handler; return whether to read on.

        Raises: WireError.
        """
        peer, driver, load = self.peer, self._driver, self._load
        requests = driver.requests
        if not load.is_light and peer.frames and driver.is_round_long():
            return self._may_read()
        load.turns_left -= 1
        is_timed = load.turns_left <= 0
        began_ms = driver.elapsed_ms() if is_timed else 0
        count = 0
        while (found := peer.next_request()) is not None:
            request, message = found
            if message is None:
                self._touch()
            else:
                api_key = request.api.api_key
                requests[api_key] += 1
                answer = self.handlers[api_key](message, request)
                if answer is None:
                    pass  # It comes by `request.respond`.
                elif hasattr(answer, "__await__"):
                    driver.spawn(request, cast("Awaitable[Message | None]", answer))
                else:
                    self.complete(request, answer)  # pyright: ignore[reportArgumentType]  # No awaitable.
            if self.closed:
                return False
            count += 1
            if not peer.frames or (
                (not load.is_light or not count % REQUESTS_PER_LOOK) and driver.is_round_long()
            ):
                break
        if is_timed:
            load.note(count, driver.elapsed_ms() - began_ms)
        return (not peer.frames and peer.held_bytes < SHARE_BYTES_MIN) or self._may_read()

    def _may_read(self) -> bool:
        """Return whether to read on; where not, see to it that this connection goes on when it may."""
        peer = self.peer
        if peer.may_read():
            return True
        if peer.frames and peer.may_ask():
            self._driver.go_on_later(self)
        else:
            self._pause()
        return False

    def _pause(self) -> None:
        if not self.paused:
            self.paused = True
            self._driver.watch(self)
        in_flight = self._driver.in_flight
        self._note()
        if in_flight.allowance.is_scarce and not self.peer.is_muted:
            in_flight.wait(self)

    def resume_if_possible(self) -> None:
        """Go on, and read again, when there is room."""
        if not self.paused or self.closed:
            return
        peer = self.peer
        if peer.may_read():
            self.paused = False
            peer.resumed(self._driver.now_ms)
            self._driver.watch(self)
        elif peer.may_encode() or (peer.frames and peer.may_ask()):
            self._driver.go_on_later(self)
        else:
            self._pause()  # Room may have become scarce since: then it waits for it with the others.

    def mute(self) -> None:
        """Take nothing more from this client until `unmute`; what it is owed it is told."""
        self.peer.mute()
        self._driver.in_flight.forget(self)

    def unmute(self) -> None:
        """Go on with this client."""
        if not self.is_ending:
            self.peer.unmute(self._driver.in_flight.allowance)
            self.resume_if_possible()

    def take_no_more(self) -> None:
        """Read nothing more, and hand nothing more over; what was handed over is answered."""
        self.is_ending = True
        self.peer.take_no_more()
        self._driver.in_flight.forget(self)
        self._pause()

    # -- answers ------------------------------------------------------------------------------------------

    def complete(self, request: ReceivedRequest, message: Message) -> None:
        """Answer `request`; it is sent once all before it have been answered.

        An answer that cannot be encoded costs this connection, and nobody else anything.
        """
        if self.closed:
            return
        peer = self.peer
        try:
            peer.complete(request, message)
        except Exception:  # A supervisor: whoever answers may be in the middle of answering others.
            self._driver.log.exception("an answer cannot be encoded", peer=self.name, api=request.api.name)
            self.close()
            return
        if peer.held_bytes > NOTED_BYTES_MIN:
            self._note_if_much()  # A flush may answer hundreds at once.
        if not self.touched:
            self.touched = True
            self._driver.touch(self)

    def abandon(self, request: ReceivedRequest) -> None:
        """Take `request` as answered with nothing."""
        if not self.closed:
            self.peer.abandon(request)
            self._touch()

    def _touch(self) -> None:
        if not self.touched:
            self.touched = True
            self._driver.touch(self)

    def send_answers(self) -> None:
        """Send all answers that stand at the head of the order, as far as the socket takes them."""
        self.touched = False
        if self.closed:
            return
        peer = self.peer
        try:
            data = peer.collect()
        except Exception:  # A supervisor, as in `complete`.
            self._driver.log.exception("an answer cannot be encoded", peer=self.name)
            self.close()
            return
        if data:
            try:
                sent = self._transport.send(data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._driver.lost(self, error)
                self.close()
                return
            if sent < len(data):
                peer.not_sent(data, sent)
                self._driver.watch(self)
        if peer.pieces and not self.wants_write:
            self.on_writable()
        elif self.paused:
            self.resume_if_possible()
        if peer.held_bytes != self._noted_bytes:
            self._note_if_much()
        if peer.deferred and not self.paused:
            self._pause()
            self.resume_if_possible()

    def on_writable(self) -> None:
        """Send what waits until it is gone, the socket is full, or others should have their turn."""
        peer, room_bytes = self.peer, SEND_BYTES_PER_TURN
        try:
            while peer.pieces and room_bytes > 0 and not self._warming:
                sent = self._send_some()
                peer.sent(sent, self._driver.now_ms)
                room_bytes -= sent
        except BlockingIOError:
            pass
        except OSError as error:
            self._driver.lost(self, error)
            self.close()
            return
        if self.unsent != self.wants_write:
            self._driver.watch(self)
        self.resume_if_possible()
        self._note()

    def _send_some(self) -> int:
        """Send from the first piece; return the number of bytes. Raises: OSError, BlockingIOError."""
        piece = self.peer.pieces[0]
        if not isinstance(piece, FileRange):
            return self._transport.send(piece)
        if not piece.is_warm():
            self._warming = True
            self._driver.warm(self, piece)
            raise BlockingIOError
        return self._transport.send_range(piece)

    def warmed(self) -> None:
        """Go on sending: what comes next is in memory now."""
        self._warming = False
        self.peer.resumed(self._driver.now_ms)
        if not self.closed:
            self._touch()

    @property
    def is_warming(self) -> bool:
        """Whether a worker reads from the disk what is to be sent next: then it is we who are slow."""
        return self._warming

    @property
    def has_sent(self) -> bool:
        """Whether any byte of the client has come."""
        return self.peer.bytes_in > 0

    @property
    def unsent(self) -> bool:
        """Whether something waits for the socket to take it."""
        return bool(self.peer.pieces) and not self._warming

    @property
    def owes(self) -> bool:
        """Whether anything is to be answered that does not wait for others."""
        return self.peer.owes

    def look(self, now_ms: int) -> str | None:
        """Return why this client is to be given up, or None while it behaves."""
        return self.peer.look(now_ms, is_paused=self.paused)

    # -- its end ------------------------------------------------------------------------------------------

    def _note_if_much(self) -> None:
        """Tell `InFlight` where that has changed by more than a small request and its answer."""
        held_bytes, noted_bytes = self.peer.held_bytes, self._noted_bytes
        if held_bytes != noted_bytes and (
            not held_bytes or not -NOTED_STEP_BYTES < held_bytes - noted_bytes < NOTED_STEP_BYTES
        ):
            self._note()

    def _note(self) -> None:
        """Tell `InFlight` what this connection holds."""
        held_bytes = self.peer.held_bytes
        if held_bytes != self._noted_bytes:
            self._driver.in_flight.note(self._noted_bytes, held_bytes)
            self._noted_bytes = held_bytes

    def close(self) -> None:
        """Close at once; answers that are still owed are dropped."""
        if self.closed:
            return
        self.closed = True
        self._driver.forget(self)
        self.peer.clear()
        self._note()
        self._transport.close()
        for action in tuple(self.on_close):
            try:
                action()
            except Exception:  # A supervisor: who waits for an answer may be anybody's code.
                self._driver.log.exception("a part failed to hear of a closed connection", peer=self.name)
