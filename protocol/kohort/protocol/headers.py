"""The headers of requests and responses.

A request in a flexible version has header version 2, any other request 1. A response in a flexible version
has header version 1, any other response 0. ApiVersions responses always have 0, because a client reads them
before it knows the broker's versions. Source: KIP-482, KIP-511.
"""

from kohort.protocol.declaring import message
from kohort.protocol.errors import WireError
from kohort.protocol.framing import LENGTH_BYTES, Frame
from kohort.protocol.schema import Int16, Int32, Message, NullableString, field
from kohort.protocol.varint import read_uvarint, skip_tags

API_VERSIONS_KEY = 18
CORRELATION_ID_BYTES = 4


@message(versions="1-2", flexible="2+")
class RequestHeader(Message):
    """The API, its version, and the correlation id of the response.

    Kafka: RequestHeader.json. The client id has a length of two bytes also in the flexible version.
    """

    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: NullableString = field(flexible=False)


@message(versions="0-1", flexible="1+")
class ResponseHeader(Message):
    """The correlation id of the request. Kafka: ResponseHeader.json."""

    correlation_id: Int32


def request_header_version(*, is_flexible: bool) -> int:
    """Return the version of the header before a request."""
    return 2 if is_flexible else 1


def response_header_version(api_key: int, *, is_flexible: bool) -> int:
    """Return the version of the header before a response."""
    return 1 if is_flexible and api_key != API_VERSIONS_KEY else 0


def frame_request(
    request: Message, version: int, correlation_id: int, client_id: str
) -> tuple[bytes, bytes, bytes]:
    """Return a request's bytes in three parts: length, header and body."""
    declared = request.declaration()
    header = RequestHeader(
        request_api_key=declared.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    ).encode(request_header_version(is_flexible=version in declared.flexible))
    body = request.encode(version)
    return (len(header) + len(body)).to_bytes(LENGTH_BYTES, "big"), header, body


def response_body(frame: Frame, header_version: int) -> Frame:
    """Return the body of a response: the bytes after its header. Raises: WireError."""
    position = CORRELATION_ID_BYTES
    if header_version == 0:
        return frame[position:]
    try:
        count, position = read_uvarint(frame, position)
        if count:
            position = skip_tags(frame, position, count)
    except IndexError:
        raise WireError("a response header is cut short") from None
    return frame[position:]
