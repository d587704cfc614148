"""Request and response headers by hand, and which version stands before which message."""

import pytest

from kohort.protocol.errors import WireError
from kohort.protocol.headers import RequestHeader, ResponseHeader
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
def test_no_client_id_and_an_empty_one_are_two_things(version: int) -> None:
    nobody = message_of(RequestHeader, client_id=None)
    assert RequestHeader.decode(nobody.encode(version), version) == nobody
    assert (
        RequestHeader.decode(message_of(RequestHeader, client_id="").encode(version), version).client_id == ""
    )


def test_unknown_tagged_fields_in_the_header_are_passed_over() -> None:
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
