"""Request and response headers by hand, and which version stands before which message."""

import pytest

from kohort.protocol.errors import WireError
from kohort.protocol.headers import RequestHeader, ResponseHeader, frame_request, response_body
from kohort.protocol.registry import APIS, BY_NAME
from tests.messages import message_of

HEADER = message_of(
    RequestHeader, request_api_key=18, request_api_version=3, correlation_id=258, client_id="app"
)


def test_the_client_id_keeps_its_two_byte_length_in_the_flexible_header() -> None:
    fixed = b"\0\x12" + b"\0\x03" + b"\0\0\x01\x02" + b"\0\x03app"
    assert HEADER.encode(1) == fixed
    assert HEADER.encode(2) == fixed + b"\0"


@pytest.mark.parametrize("version", [1, 2])
def test_the_body_follows_the_request_header(version: int) -> None:
    data = HEADER.encode(version) + b"body"
    assert RequestHeader.decode(data, version, exact=False) == HEADER
    with pytest.raises(WireError):
        RequestHeader.decode(data, version)


@pytest.mark.parametrize("version", [1, 2])
def test_a_null_client_id_differs_from_an_empty_one(version: int) -> None:
    nobody = message_of(RequestHeader, client_id=None)
    assert RequestHeader.decode(nobody.encode(version), version) == nobody
    assert (
        RequestHeader.decode(message_of(RequestHeader, client_id="").encode(version), version).client_id == ""
    )


def test_unknown_tagged_fields_in_the_header_are_skipped() -> None:
    data = HEADER.encode(2)[:-1] + b"\x02" + b"\0\x01x" + b"\x07\0"
    assert RequestHeader.decode(data, 2) == HEADER


def test_a_response_header_is_the_correlation_id() -> None:
    header = ResponseHeader(correlation_id=-2)
    assert (header.encode(0), header.encode(1)) == (b"\xff\xff\xff\xfe", b"\xff\xff\xff\xfe\0")
    assert ResponseHeader.decode(b"\xff\xff\xff\xfe\0", 1) == header


def test_flexible_versions_have_flexible_headers() -> None:
    heartbeat = BY_NAME["Heartbeat"]
    assert [heartbeat.request_header_version(version) for version in (3, 4)] == [1, 2]
    assert [heartbeat.response_header_version(version) for version in (3, 4)] == [0, 1]
    offset_delete = BY_NAME["OffsetDelete"]
    assert (offset_delete.request_header_version(0), offset_delete.response_header_version(0)) == (1, 0)


def test_an_api_versions_response_never_has_a_flexible_header() -> None:
    api_versions = APIS[18]
    assert [api_versions.request_header_version(version) for version in (2, 3)] == [1, 2]
    assert [api_versions.response_header_version(version) for version in range(6)] == [0] * 6


def test_a_framed_request_is_its_length_its_header_and_its_body() -> None:
    request = message_of(BY_NAME["ApiVersions"].request, client_software_name="kohort")
    framed = frame_request(request, 3, 258, "app")
    assert framed == (
        (len(framed[1]) + len(framed[2])).to_bytes(4, "big"),
        HEADER.encode(2),
        request.encode(3),
    )


def test_the_body_of_an_answer_follows_its_header() -> None:
    assert response_body(b"\0\0\0\x07body", 0) == b"body"
    assert response_body(b"\0\0\0\x07\0body", 1) == b"body"
    tagged = b"\0\0\0\x07" + b"\x02" + b"\x05\x02xy" + b"\x81\x01\x01z"
    assert response_body(tagged + b"body", 1) == b"body"
    for cut in range(4, len(tagged) - 3):
        with pytest.raises(WireError):
            response_body(tagged[:cut], 1)
