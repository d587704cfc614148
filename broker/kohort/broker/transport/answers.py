"""An answer in bytes: with its length and header before it, in one piece or in several."""

import struct

from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.request import Answer, ReceivedRequest
from kohort.broker.transport.request_forms import FETCH_KEY
from kohort.protocol.schema import Message, encoders

FILE_RANGE_BYTES = 1_024  # The size of a range that is to be sent from its file.
JOINED_BYTES = 16_384  # Pieces up to this are joined into one before they are sent.
PIECES_MANY = 64  # For fewer, mostly small ones, joining without the header and adding it then is quicker.
IN_PIECES = frozenset((FETCH_KEY, 11, 14, 15))  # Fetch; groups, whose large bytes all answers share.
_HEADER_0 = struct.Struct(">ii")
_HEADER_1 = struct.Struct(">iib")


def encoded(request: ReceivedRequest, message: Message) -> Answer:
    """Return the answer to `request`: in one piece, or in several if others get the same ones.

    Raises: the error of encoding an impossible message.
    """
    api, version = request.api, request.version
    encode = encoders.get((type(message), version))
    body = message.encode_parts(version) if encode is None else encode(message)  # A call less, mostly.
    if api.api_key not in IN_PIECES and len(body) < PIECES_MANY:
        data = b"".join(body)  # type: ignore[arg-type]  # without ranges of files
        if version in api.tagged_answer_versions:
            return _HEADER_1.pack(len(data) + 5, request.correlation_id, 0) + data
        return _HEADER_0.pack(len(data) + 4, request.correlation_id) + data
    size = sum(map(len, body))
    if version in api.tagged_answer_versions:
        head = _HEADER_1.pack(size + 5, request.correlation_id, 0)
    else:
        head = _HEADER_0.pack(size + 4, request.correlation_id)
    pieces = [head, *body]
    if api.api_key not in IN_PIECES or (size <= JOINED_BYTES and api.api_key != FETCH_KEY):
        return b"".join(pieces)  # type: ignore[arg-type]  # without ranges of files
    return pieces  # type: ignore[return-value]  # a records piece is one that we made


def held_bytes_of(answer: Answer) -> int:
    """Return how much memory an answer uses: bytes sent from a file use little."""
    if isinstance(answer, bytes):
        return len(answer)
    return sum(FILE_RANGE_BYTES if type(piece) is FileRange else len(piece) for piece in answer)
