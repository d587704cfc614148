"""One client's connection: a `Peer` over a transport, served in turns.

Nothing here blocks. A turn reads the bytes received, passes requests to their handlers as far as limits
allow, and is short. A connection with more requests, or much to send, continues in the next round, after the
other connections. A connection at its limits is not read until there is room again.
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
RECEIVES_PER_TURN = 8  # Then other connections have their turn.
REQUESTS_PER_LOOK = 8  # The clock is read after so many requests of one turn.
SEND_BYTES_PER_TURN = 4 * 1024 * 1024
NOTED_STEP_BYTES = 4_096  # The error of `InFlight`'s count for each connection.
NOTED_BYTES_MIN = 65_536  # Less than this is reported to `InFlight` only at the end of the round.


class Driver(Protocol):
    """The event loop of a connection."""

    now_ms: int
    """The time at the start of this round."""
    handlers: Handlers
    """The handlers of all APIs, by API key."""
    requests: defaultdict[int, int]
    """The number of handled requests, by API key."""
    in_flight: InFlight
    log: ThrottledLog
    permissions: Permissions
    """The permissions of requests without an authorizer."""

    def touch(self, connection: "Connection", /) -> None:
        """Send the connection's answers at the end of this round, or start a round for them."""
        ...

    def go_on_later(self, connection: "Connection", /) -> None:
        """Continue with the connection in the next round, even if nothing new has arrived."""
        ...

    def elapsed_ms(self) -> int:
        """Return the elapsed time now, within a round."""
        ...

    def is_round_long(self) -> bool:
        """Return whether this round has taken so long that other work should wait."""
        ...

    def watch(self, connection: "Connection", /) -> None:
        """Poll the connection for reading unless it is paused, and for writing if bytes are unsent."""
        ...

    def forget(self, connection: "Connection", /) -> None:
        """Stop watching a connection that closes."""
        ...

    def spawn(self, request: Request, answer: Awaitable[Message | None], /) -> None:
        """Run a slow handler as a task."""
        ...

    def warm(self, connection: "Connection", piece: FileRange, /) -> None:
        """Read the range's next part in a worker thread, then call `connection.warmed`."""
        ...

    def malformed(self, connection: "Connection", error: WireError, /) -> None:
        """Log and count bytes that are no request. The connection is closed."""
        ...

    def lost(self, connection: "Connection", error: OSError, /) -> None:
        """Log that a client has disconnected unexpectedly."""
        ...


class Transport(Protocol):
    """Sends and receives a connection's bytes. It never blocks, but raises BlockingIOError."""

    file_descriptor: int

    @property
    def receive(self) -> Callable[[int], bytes]:
        """Return at most `count` bytes, none at the end. Raises: OSError."""
        ...

    @property
    def send(self) -> Callable[[bytes | memoryview], int]:
        """Send some bytes. Return their number. Raises: OSError."""
        ...

    def receive_into(self, view: memoryview) -> int:
        """Read received bytes into `view`. Return their number. Raises: OSError."""
        ...

    def send_range(self, piece: FileRange) -> int:
        """Send the next part of a file range. Return the number of bytes. Raises: OSError."""
        ...

    def close(self) -> None:
        """Close at once."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Connection:
    """The state of one connection. The reactor drives it in the loop's thread."""

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
        self._noted_bytes = 0  # held bytes that `InFlight` has counted
        self._warming = False  # whether a worker reads the next part of a file
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
        """The handlers for this client. Before authentication there are only a few."""
        self.listener = listener
        self.permissions: Permissions = driver.permissions
        self.closed = False
        self.is_ending = False  # whether no more requests are read, because the broker stops
        self.touched = False  # whether the reactor will send its answers at the end of the round
        self.paused = False
        self.wants_write = False
        self.counted_in = 0  # bytes that the counters include
        self.counted_out = 0
        self.on_close: list[Callable[[], None]] = []
        self._load = Load()

    # -- requests -----------------------------------------------------------------------------------------

    def on_readable(self) -> None:
        """Read received bytes, and pass requests to their handlers as far as limits allow."""
        if self.paused:  # It was paused after this round's events were polled.
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
        """Handle requests that were received in an earlier turn. Then read again."""
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
            self.peer.resumed(self._driver.now_ms)  # The pause was the broker's own.
            self.resume_if_possible()
        self._note()

    def _receive(self) -> bool:
        """Read once. Return whether to read again. Raises: WireError, OSError."""
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
        """Pass requests to their handlers as far as limits allow. Return whether to read more.

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
                    pass  # The handler calls `request.respond` later.
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
        """Return whether to read more. If not, arrange that the connection continues later."""
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
        """Continue, and read again, if there is room."""
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
            self._pause()  # Memory may have become scarce: then it waits for room.

    def mute(self) -> None:
        """Read nothing more from this client until `unmute`. Pending answers are sent."""
        self.peer.mute()
        self._driver.in_flight.forget(self)

    def unmute(self) -> None:
        """Read from this client again."""
        if not self.is_ending:
            self.peer.unmute(self._driver.in_flight.allowance)
            self.resume_if_possible()

    def take_no_more(self) -> None:
        """Read and handle no more requests. Requests in progress are answered."""
        self.is_ending = True
        self.peer.take_no_more()
        self._driver.in_flight.forget(self)
        self._pause()

    # -- answers ------------------------------------------------------------------------------------------

    def complete(self, request: ReceivedRequest, message: Message) -> None:
        """Answer `request`. The answer is sent after all earlier ones.

        An answer that cannot be encoded closes only this connection.
        """
        if self.closed:
            return
        peer = self.peer
        try:
            peer.complete(request, message)
        except Exception:  # A supervisor: the caller may be answering other clients, too.
            self._driver.log.exception("an answer cannot be encoded", peer=self.name, api=request.api.name)
            self.close()
            return
        if peer.held_bytes > NOTED_BYTES_MIN:
            self._note_if_much()  # A flush may answer hundreds at once.
        if not self.touched:
            self.touched = True
            self._driver.touch(self)

    def abandon(self, request: ReceivedRequest) -> None:
        """Complete `request` without an answer."""
        if not self.closed:
            self.peer.abandon(request)
            self._touch()

    def _touch(self) -> None:
        if not self.touched:
            self.touched = True
            self._driver.touch(self)

    def send_answers(self) -> None:
        """Send the answers that are next in order, as far as the socket accepts them."""
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
        """Send unsent bytes until none are left, the socket is full, or the turn is over."""
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
        """Send from the first piece. Return the number of bytes. Raises: OSError, BlockingIOError."""
        piece = self.peer.pieces[0]
        if not isinstance(piece, FileRange):
            return self._transport.send(piece)
        if not piece.is_warm():
            self._warming = True
            self._driver.warm(self, piece)
            raise BlockingIOError
        return self._transport.send_range(piece)

    def warmed(self) -> None:
        """Continue to send: the next part of the file is in memory now."""
        self._warming = False
        self.peer.resumed(self._driver.now_ms)
        if not self.closed:
            self._touch()

    @property
    def is_warming(self) -> bool:
        """Whether a worker reads the next part of a file. Then the broker is slow, not the client."""
        return self._warming

    @property
    def has_sent(self) -> bool:
        """Whether the client has sent any byte."""
        return self.peer.bytes_in > 0

    @property
    def unsent(self) -> bool:
        """Whether bytes wait for the socket."""
        return bool(self.peer.pieces) and not self._warming

    @property
    def owes(self) -> bool:
        """Whether requests are unanswered that do not wait for other events."""
        return self.peer.owes

    def look(self, now_ms: int) -> str | None:
        """Return the reason to close this connection, or None."""
        return self.peer.look(now_ms, is_paused=self.paused)

    # -- accounting and close -----------------------------------------------------------------------------

    def _note_if_much(self) -> None:
        """Report held bytes to `InFlight` if they have changed by more than a small request and answer."""
        held_bytes, noted_bytes = self.peer.held_bytes, self._noted_bytes
        if held_bytes != noted_bytes and (
            not held_bytes or not -NOTED_STEP_BYTES < held_bytes - noted_bytes < NOTED_STEP_BYTES
        ):
            self._note()

    def _note(self) -> None:
        """Report the held bytes to `InFlight`."""
        held_bytes = self.peer.held_bytes
        if held_bytes != self._noted_bytes:
            self._driver.in_flight.note(self._noted_bytes, held_bytes)
            self._noted_bytes = held_bytes

    def close(self) -> None:
        """Close at once. Pending answers are dropped."""
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
            except Exception:  # A supervisor of foreign callbacks.
                self._driver.log.exception("a callback for a closed connection failed", peer=self.name)
