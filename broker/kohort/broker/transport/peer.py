"""The requests and unsent answers of one client, without a socket.

Bytes in, requests out; answers in, pieces out:

    peer.receive(data, now_ms)                     # or fill peer.buffer(), and say peer.filled(count, now_ms)
    while (found := peer.next_request()) is not None: ...
    peer.complete(request, message)                # in any order, at any time
    data = peer.collect()                          # the bytes to send now; large ones are in pieces
    peer.not_sent(data, count)                     # if not all were sent
    peer.sent(count, now_ms)                       # of the first piece

Answers leave in the order of their requests. All memory for the client is counted in
`held_bytes`: received bytes until they are answered, and the answers until they are sent. When that
reaches the limit, or too many requests are in flight, no further request comes out, and bytes that have
arrived stay here until there is memory: a client that asks much and reads little slows itself.

Requests are often answered all at once, after a flush. An answer that may be long is encoded while there
is memory for it; until then its message waits here, and so do further requests of this client.
"""

import struct
from collections import deque

from kohort.broker.transport.answers import FILE_RANGE_BYTES, JOINED_BYTES, encoded, held_bytes_of
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.in_flight import NOTHING, SHARE_BYTES_MIN, Allowance
from kohort.broker.transport.request import Origin, ReceivedRequest
from kohort.broker.transport.request_forms import (
    COUNTED_AT_ONCE,
    FETCH_KEY,
    FORMS,
    HEADER,
    OF_TRANSACTIONS,
    PRODUCE_KEY,
    SHORT_ANSWERS,
    WAITING,
    form_of,
    skip_tagged_fields,
    unsupported_version,
)
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.errors import WireError
from kohort.protocol.framing import LENGTH, LENGTH_BYTES, Frame, FrameReader
from kohort.protocol.headers import API_VERSIONS_KEY
from kohort.protocol.limits import max_request_bytes
from kohort.protocol.schema import Message

REQUESTS_IN_FLIGHT_MAX = 512
REQUEST_BYTES = 2_048  # About the memory of a request in flight besides its own bytes.
LENGTH_AND_REQUEST_BYTES = LENGTH_BYTES + REQUEST_BYTES
NAMING_BYTES_MIN = 4_096  # A request whose answer may be long, and that has more, names much:
DECODED_FACTOR = 11  # it uses so many times its bytes after it is decoded, until it is answered;
DECODED_BYTES_MAX = 8 * 1024 * 1024  # but its names use no more than their bytes.
MODEST_ANSWERS_MIN = 4
MODEST_ANSWER_BYTES_MAX = 4_096
LENGTHY_IN_FLIGHT_MAX = 8  # Requests whose answers may be long: until they are encoded their size is unknown.

STALLED_MS_MAX = 10_000  # Without a byte in the middle of a frame, or with no answer taken when paused.
STUCK_MS_MAX = 400  # With no answer taken when all room is.
SLOW_GRACE_MS_FULL = 5_000  # When all room is taken, and otherwise:
SLOW_GRACE_MS = 30_000  # After it, frames must arrive, and answers be read, at this rate:
SLOW_BYTES_PER_SECOND_MIN = 16_384
SLOW_UNSENT_BYTES_MIN = 65_536  # Answers below this may take as long as they like.

Pieces = deque[bytes | memoryview | FileRange]

_NO_PIECES: Pieces = deque(maxlen=0)  # One for all connections without a limit: each would use 600 bytes.


@mypyc_attr(allow_interpreted_subclasses=True)
class Peer:
    """One client's side of a connection. It knows no socket, no loop and no clock."""

    __slots__ = (
        "_allowance",
        "_asked",
        "_in_flight",
        "_lengthy_in_flight",
        "_of_transactions",
        "_origin",
        "_reader",
        "_slow_frame",
        "_slow_taker",
        "buffer_bytes",
        "bytes_in",
        "bytes_out",
        "deferred",
        "frames",
        "held_bytes",
        "last_active_ms",
        "pieces",
    )

    def __init__(self, origin: Origin, allowance: Allowance, *, frame_bytes_max: int, now_ms: int) -> None:
        """Begin with nothing; the requests that come out are those of `origin`."""
        self._origin: Origin | None = origin
        self._allowance = allowance
        self._reader = FrameReader(frame_bytes_max, max_request_bytes)
        self._in_flight: list[ReceivedRequest] = []  # Few: a deque is no quicker, and ten times as large.
        self._slow_frame: tuple[int, int] | None = None  # Since when, and `bytes_in` then.
        self._slow_taker: tuple[int, int] | None = None  # Since when, and `bytes_out` then.
        self._asked = 0  # How many requests came out.
        self._of_transactions: ReceivedRequest | None = None  # The last, until its answer is known.
        self._lengthy_in_flight = 0  # Those in flight whose answers may be long, fetches not counted.
        self.deferred = 0
        """How many answers are known and wait for room to be encoded."""
        self.buffer_bytes = 0
        """The size of the buffer of the unfinished large frame; 0 without one."""
        self.frames: list[Frame] = []
        """Arrived frames that were not handed over yet, the first one last."""
        self.pieces: Pieces = _NO_PIECES
        """Pieces to be sent, the first one first."""
        self.held_bytes = 0
        """The memory for this client; an unfinished frame counts with its buffer, which is copied to grow."""
        self.last_active_ms = now_ms
        self.bytes_in = 0
        self.bytes_out = 0

    # -- bytes in -----------------------------------------------------------------------------------------

    def buffer(self) -> memoryview | None:
        """Return where the next bytes of a large frame belong, or None: then hand them to `receive`."""
        return self._reader.buffer()

    def filled(self, count: int, now_ms: int) -> None:
        """Take `count` bytes that were written into `buffer()`. Raises: WireError for a frame too large."""
        self._took(count, now_ms, self._reader.filled(count))

    def receive(self, data: bytes, now_ms: int) -> None:
        """Take the arrived bytes. Raises: WireError for a frame of an impossible length."""
        reader, count = self._reader, len(data)
        if (
            LENGTH_BYTES <= count <= reader.small_bytes_max
            and not (reader.buffer_bytes or reader.rest or self.frames)
            and LENGTH(data)[0] == count - LENGTH_BYTES
        ):  # As below, for the usual case: one request, complete, and all before were handed over.
            self.bytes_in += count
            self.held_bytes += count
            self.last_active_ms = now_ms
            self.frames = [data[LENGTH_BYTES:]]
            self._slow_frame = None
        else:
            reader.is_frugal = self._allowance.is_scarce
            self._took(count, now_ms, reader.receive(data))

    def _took(self, count: int, now_ms: int, frames: list[Frame]) -> None:
        self.bytes_in += count
        self.last_active_ms = now_ms
        buffer_bytes = self._reader.buffer_bytes
        self.held_bytes += count + buffer_bytes - self.buffer_bytes
        self.buffer_bytes = buffer_bytes
        if frames:
            if len(frames) > 1:
                frames.reverse()
            self.frames = frames + self.frames if self.frames else frames
            self._slow_frame = None

    @property
    def is_modest(self) -> bool:
        """Whether some answers were taken, and they were small on average."""
        answered = self._asked - len(self._in_flight)
        return answered >= MODEST_ANSWERS_MIN and self.bytes_out <= answered * MODEST_ANSWER_BYTES_MAX

    # -- requests out -------------------------------------------------------------------------------------

    @property
    def requests_in_flight(self) -> int:
        """How many requests have not been answered yet."""
        return len(self._in_flight)

    @property
    def owes(self) -> bool:
        """Whether anything is to be answered that does not wait for others."""
        return any(each.api.api_key not in WAITING for each in self._in_flight)

    def take_no_more(self) -> None:
        """Drop frames not handed over yet, and stop reading; requests in flight are still answered."""
        self.held_bytes -= sum(len(each) + LENGTH_BYTES for each in self.frames)
        self.frames = []
        self.mute()

    def may_ask(self) -> bool:
        """Return whether there is room for the next request of this client, which has arrived.

        One request is always allowed if no answer is pending: the memory is then that of arrived frames, and
        only handing one over frees some.
        """
        allowance = self._allowance
        if self.deferred or len(self._in_flight) >= REQUESTS_IN_FLIGHT_MAX:
            return False
        is_full = allowance.is_full and allowance.asking is not self
        if is_full or self._lengthy_in_flight >= LENGTHY_IN_FLIGHT_MAX:
            api_key = int.from_bytes(self.frames[-1][:2], "big", signed=True)
            if api_key not in SHORT_ANSWERS and (is_full or api_key != FETCH_KEY):
                return False
        if self._in_flight and self._is_held(int.from_bytes(self.frames[-1][:2], "big", signed=True)):
            return False
        if self.held_bytes < allowance.held_bytes_max:
            return True
        return not self._in_flight and not self.pieces

    def _is_held(self, api_key: int) -> bool:
        """Return whether a request may act only once one before it has been answered."""
        last = self._of_transactions
        if last is not None and last.answer is not None:
            last = self._of_transactions = None
        if api_key == PRODUCE_KEY:
            return last is not None
        if api_key not in OF_TRANSACTIONS:
            return False
        return last is not None or any(
            each.answer is None and each.api.api_key == PRODUCE_KEY for each in self._in_flight
        )

    def may_read(self) -> bool:
        """Return whether more bytes are to be taken from this client now."""
        if self.frames or self.deferred or len(self._in_flight) >= REQUESTS_IN_FLIGHT_MAX:
            return False
        if self.held_bytes < self._allowance.held_bytes_max:
            return True
        # All held bytes may be part of one large frame: it is small enough, or it would never be read.
        if self._in_flight or self.pieces:
            return False
        return not self._allowance.is_scarce or self._allowance.finishing is self

    def next_request(self) -> tuple[ReceivedRequest, Message | None] | None:
        """Return the next request and its message, or None without one or without memory for it.

        Without a message it has been answered here already. Raises: WireError.
        """
        if not self.frames:
            return None
        allowance, in_flight = self._allowance, self._in_flight
        if in_flight or self.pieces or allowance.is_full:  # Otherwise no answer is pending.
            may_be_too_much = (
                self.held_bytes >= allowance.held_bytes_max
                or len(in_flight) >= REQUESTS_IN_FLIGHT_MAX
                or self._lengthy_in_flight >= LENGTHY_IN_FLIGHT_MAX
            )
            if (may_be_too_much or allowance.is_full) and not self.may_ask():
                return None
        frame = self.frames.pop()
        try:
            kind, correlation_id, length = HEADER.unpack_from(frame)
            end = 10 + length if length > 0 else 10
            client_id = None if length < 0 else str(frame[10:end], "utf-8")
        except (struct.error, UnicodeDecodeError) as error:
            raise WireError(f"a request header: {error}") from None
        frame_bytes = len(frame)
        if end > frame_bytes or length < -1:
            raise WireError("a request header that is cut off")
        form, origin = FORMS.get(kind) or form_of(kind), self._origin
        api, version, is_lengthy, is_flexible, decode, is_of_transactions = form
        if (is_of_transactions or (self._of_transactions is not None and api.api_key == PRODUCE_KEY)) and (
            in_flight and self._is_held(api.api_key)
        ):
            self.frames.append(frame)
            return None
        if origin is None:
            raise WireError(f"{api.name} of a client that has gone")
        request = ReceivedRequest(
            origin, api, version, correlation_id, client_id, frame_bytes + LENGTH_AND_REQUEST_BYTES
        )
        self.held_bytes += REQUEST_BYTES
        in_flight.append(request)
        self._asked += 1
        if is_lengthy:
            self._lengthy_in_flight += 1
            if frame_bytes > NAMING_BYTES_MIN:
                more_bytes = min(frame_bytes * DECODED_FACTOR, DECODED_BYTES_MAX)
                request.held_bytes += more_bytes
                self.held_bytes += more_bytes
        elif is_of_transactions:
            self._of_transactions = request
        if decode is None:
            self._refuse_version(request)
            return request, None
        if is_flexible:
            end = end + 1 if frame[end : end + 1] == b"\0" else skip_tagged_fields(frame, end)
        # Kafka ignores bytes after a message, and librdkafka relies on it: Metadata 13 for all topics.
        return request, decode(frame[end:], False)

    def _refuse_version(self, request: ReceivedRequest) -> None:
        """Answer an ApiVersions newer than ours in version 0, as clients expect (KIP-511); else give up.

        Raises: WireError.
        """
        if request.api.api_key != API_VERSIONS_KEY:
            raise WireError(f"{request.api.name} version {request.version}, not in {request.api.versions}")
        request.version = 0
        self.complete(request, unsupported_version())

    # -- answers in, pieces out ---------------------------------------------------------------------------

    def complete(self, request: ReceivedRequest, message: Message) -> None:
        """Take the answer to `request`. Raises: the error of encoding an impossible message."""
        api = request.api
        assert request.answer is None, f"{api.name} answered twice"
        api_key = api.api_key
        if api_key not in COUNTED_AT_ONCE:
            allowance = self._allowance
            assert request.deferred is None, f"{request.api.name} answered twice"
            if self.deferred or self.held_bytes >= allowance.held_bytes_max or allowance.is_full:
                request.deferred = message
                self.deferred += 1
                return
            self._lengthy_in_flight -= 1
        request.answer = answer = encoded(request, message)
        self.held_bytes += len(answer) if type(answer) is bytes else held_bytes_of(answer)

    def may_encode(self) -> bool:
        """Return whether an answer is deferred for which there is room now.

        One is always allowed if no answer is pending, unless all memory is used: then for one client after
        the other.
        """
        allowance = self._allowance
        if not self.deferred or (allowance.is_full and allowance.asking is not self):
            return False
        if self.held_bytes < allowance.held_bytes_max:
            return True
        return not self.pieces and self._in_flight[0].deferred is not None

    def _encode_deferred(self) -> None:
        """Encode deferred answers, as far as memory allows. Raises: as `complete`."""
        for request in self._in_flight:
            message = request.deferred
            if message is not None:
                if not self.may_encode():
                    return
                request.deferred = None
                self.deferred -= 1
                self._lengthy_in_flight -= 1
                request.answer = answer = encoded(request, message)
                self.held_bytes += held_bytes_of(answer)

    def abandon(self, request: ReceivedRequest) -> None:
        """Complete `request` without an answer. Only one with a short answer may be."""
        assert request.answer is None, f"{request.api.name} answered twice"
        assert request.api.api_key in SHORT_ANSWERS, request.api.name
        request.answer = []

    def collect(self) -> bytes:
        """Take the answers whose turn it is; return them where they are small and nothing is before them.

        They count as sent then, unless `not_sent` corrects that. Larger ones are in `pieces`.
        Raises: the error of encoding an impossible message.
        """
        waiting = self._in_flight
        if self.deferred:
            self._encode_deferred()
        if not waiting or (answer := waiting[0].answer) is None:
            return b""
        size = len(answer)
        if len(waiting) == 1 and type(answer) is bytes and size <= JOINED_BYTES and not self.pieces:
            # The usual case: one request at a time, with a short answer.
            self.held_bytes -= waiting.pop().held_bytes + size
            self.bytes_out += size
            return answer
        small: list[bytes] = []
        while waiting and (answer := waiting[0].answer) is not None:
            self.held_bytes -= waiting.pop(0).held_bytes
            for piece in (answer,) if isinstance(answer, bytes) else answer:
                if type(piece) is bytes and len(piece) <= JOINED_BYTES:
                    small.append(piece)
                else:
                    if small:
                        self._queue(b"".join(small))
                        small = []
                    self._queue(piece)
        if not small:
            return b""
        data = b"".join(small)
        if not self.pieces:
            self.bytes_out += len(data)
            self.held_bytes -= len(data)
            return data
        self._queue(data)
        return b""

    def _queue(self, piece: bytes | memoryview | FileRange) -> None:
        if self.pieces:
            self.pieces.append(piece)
        else:
            self.pieces = deque((piece,))

    def not_sent(self, data: bytes, count: int) -> None:
        """Note that only `count` bytes of what `collect` returned were sent; the rest is the first piece."""
        rest = memoryview(data)[count:]
        self._queue(rest)
        self.bytes_out -= len(rest)
        self.held_bytes += len(rest)

    def sent(self, count: int, now_ms: int) -> None:
        """Note that `count` bytes of the first piece were sent."""
        self.bytes_out += count
        self.last_active_ms = now_ms
        piece = self.pieces[0]
        if isinstance(piece, FileRange):
            piece.position += count
            piece.size_bytes -= count
            if not piece.size_bytes:
                self._next_piece()
                self.held_bytes -= FILE_RANGE_BYTES
            return
        self.held_bytes -= count
        if count == len(piece):
            self._next_piece()
        else:
            self.pieces[0] = memoryview(piece)[count:]

    def _next_piece(self) -> None:
        self.pieces.popleft()
        if not self.pieces:
            self.pieces = _NO_PIECES

    # -- time ---------------------------------------------------------------------------------------------

    def mute(self) -> None:
        """Let at most one request out, and stop reading, until `unmute`."""
        self._allowance = NOTHING

    def unmute(self, allowance: Allowance) -> None:
        """Apply the limit of `allowance` again."""
        self._allowance = allowance

    @property
    def is_muted(self) -> bool:
        """Whether this client has to wait."""
        return self._allowance is NOTHING

    def resumed(self, now_ms: int) -> None:
        """Note that this client is read again: that it was silent meanwhile was our doing."""
        self.last_active_ms = now_ms
        self._slow_frame = None

    def look(self, now_ms: int, *, is_paused: bool) -> str | None:
        """Return why this client is to be given up, or None while it behaves. To be asked every few seconds.

        A frame as a whole, and answers that wait, have `SLOW_GRACE_MS` and then as long as they need at
        `SLOW_BYTES_PER_SECOND_MIN`: a byte every nine seconds is not silence, but useless. When all
        memory is used, a client that reads nothing for `STUCK_MS_MAX` is closed.
        """
        is_full = self._allowance.is_full
        if is_full and self.is_stuck(now_ms):
            return "it takes no answers, and the room for all is taken"
        grace_ms = SLOW_GRACE_MS_FULL if is_full else SLOW_GRACE_MS
        in_frame = self._reader.in_frame and not is_paused and not self.frames
        if now_ms - self.last_active_ms >= STALLED_MS_MAX:
            if in_frame:
                return "half a frame, then silence"
            if is_paused and self.pieces:
                return "it asks and asks, and takes no answers"
        if not in_frame:
            self._slow_frame = None
        elif self._slow_frame is None:
            self._slow_frame = now_ms, self.bytes_in
        elif _is_too_slow(self._slow_frame, now_ms, self.bytes_in, grace_ms):
            return "a frame that comes too slowly"
        if not self.pieces or self.held_bytes < SLOW_UNSENT_BYTES_MIN:
            self._slow_taker = None
        elif self._slow_taker is None:
            self._slow_taker = now_ms, self.bytes_out
        elif _is_too_slow(self._slow_taker, now_ms, self.bytes_out, grace_ms):
            return "it takes its answers too slowly"
        return None

    def is_stuck(self, now_ms: int) -> bool:
        """Return whether many bytes are unsent, and none of them was read for a while."""
        return (
            bool(self.pieces)
            and self.held_bytes >= SHARE_BYTES_MIN
            and now_ms - self.last_active_ms >= STUCK_MS_MAX
        )

    def clear(self) -> None:
        """Drop everything, the requester as well.

        The connection is closed, and in no reference circle with its peer.
        """
        self._origin = None
        self.frames = []
        self._in_flight.clear()
        self._of_transactions = None
        self._lengthy_in_flight = self.deferred = 0
        self.pieces = _NO_PIECES
        self.held_bytes = 0


def _is_too_slow(since: tuple[int, int], now_ms: int, bytes_now: int, grace_ms: int) -> bool:
    since_ms, bytes_then = since
    allowed_ms = grace_ms + (bytes_now - bytes_then) * 1_000 // SLOW_BYTES_PER_SECOND_MIN
    return now_ms - since_ms > allowed_ms
