"""A peer that may send tokens without a header, as behind SaslHandshake 0, and at first no large frames."""

import struct

from kohort.broker.transport.in_flight import Allowance
from kohort.broker.transport.peer import REQUEST_BYTES, Peer
from kohort.broker.transport.request import Origin, ReceivedRequest
from kohort.protocol.framing import LENGTH_BYTES
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

BARE = -1
"""The version of a SaslAuthenticate that has come, and is answered, as the token alone."""

_AUTHENTICATE = BY_NAME["SaslAuthenticate"]


class SaslPeer(Peer):
    """Bytes in, requests out; tokens without a header become requests as well."""

    __slots__ = ("is_bare",)

    def __init__(self, origin: Origin, allowance: Allowance, *, frame_bytes_max: int, now_ms: int) -> None:
        super().__init__(origin, allowance, frame_bytes_max=frame_bytes_max, now_ms=now_ms)
        self.is_bare = False
        """Whether what comes now are tokens without headers."""

    def allow(self, frame_bytes_max: int) -> None:
        """Take larger frames from now on."""
        self._reader.allow(frame_bytes_max)

    def next_request(self) -> tuple[ReceivedRequest, Message | None] | None:
        """Return the next request and its message, None where there is none. Raises: WireError."""
        if not self.is_bare or not self.frames or self._origin is None:
            return super().next_request()
        token = self.frames.pop()
        size = LENGTH_BYTES + len(token) + REQUEST_BYTES
        request = ReceivedRequest(self._origin, _AUTHENTICATE, BARE, 0, None, size)
        self.held_bytes += REQUEST_BYTES
        self._in_flight.append(request)
        self._asked += 1
        return request, SaslAuthenticateRequest(auth_bytes=bytes(token))

    def complete(self, request: ReceivedRequest, message: Message) -> None:
        """Take the answer to `request`; that to a bare token has no header."""
        if request.version != BARE:
            super().complete(request, message)
            return
        assert isinstance(message, SaslAuthenticateResponse)
        request.answer = answer = struct.pack(">i", len(message.auth_bytes)) + message.auth_bytes
        self.held_bytes += len(answer)
