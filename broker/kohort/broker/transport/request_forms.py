"""The properties of a request that its header decides: its API and version, and how its answer counts.

Source: Kafka's RequestHeader versions 0 to 2.
"""

import struct
from functools import cache
from typing import NamedTuple

from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.framing import Frame
from kohort.protocol.headers import API_VERSIONS_KEY
from kohort.protocol.limits import MAX_ITEMS
from kohort.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.protocol.registry import APIS, Api, api_of
from kohort.protocol.schema import Decoder
from kohort.protocol.varint import read_uvarint, skip_tags

HEADER = struct.Struct(">iih")  # API key and version as one number, by which `FORMS` has them.
FETCH_KEY = 1  # Its answers contain records or ranges of files: they are counted at once.

# Produce, commits, coordinators, members, versions, producers, transactions: the answer is no larger
# than the request, or than a group. These are answered with full memory too.
SHORT_ANSWERS = frozenset((0, 8, 10, 11, 12, 13, 14, 17, 18, 22, 24, 25, 26, 28, 36, 47, 68, 71, 72, 76, 79))
PRODUCE_KEY = 0
OF_TRANSACTIONS = frozenset((22, 24, 25, 26, 28))
"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit act in their order, and
Produce does so among them. Such a request may wait, for a task of its own or for markers that are being
written: the next would act before it. Kafka takes nothing from a connection whose last one is unanswered."""
WAITING = frozenset((FETCH_KEY, 11, 14, 78))
"""Fetch, JoinGroup, SyncGroup, ShareFetch: they wait for others; clients retry."""
COUNTED_AT_ONCE = SHORT_ANSWERS | {FETCH_KEY}  # All others are lengthy: their answers wait for room.


class Form(NamedTuple):
    """The properties of the requests of one API in one version. Without a decoder the version is unknown."""

    api: Api
    version: int
    is_lengthy: bool
    is_flexible: bool
    decode: Decoder | None
    is_of_transactions: bool


FORMS: dict[int, Form] = {}
"""Of known versions, by API key and version as encoded in a request: two bytes and two bytes."""


def form_of(kind: int) -> Form:
    """Return the form of a request that was not seen before. Raises: WireError for an unknown API."""
    api_key, version = kind >> 16, (kind & 0xFFFF ^ 0x8000) - 0x8000
    api = api_of(api_key)
    if api is None:
        raise WireError(f"api key {api_key}, which is unknown")
    is_known = version in api.known_versions
    form = Form(
        api,
        version,
        api_key not in COUNTED_AT_ONCE,
        version in api.flexible_versions,
        api.request.decoder(version) if is_known else None,
        api_key in OF_TRANSACTIONS,
    )
    if is_known:
        FORMS[kind] = form
    return form


@cache
def unsupported_version() -> ApiVersionsResponse:
    """Return the answer, in version 0, to an ApiVersions newer than ours: it has the supported versions."""
    versions = APIS[API_VERSIONS_KEY].versions
    ours = ApiVersion(api_key=API_VERSIONS_KEY, min_version=versions.lowest, max_version=versions.highest)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(ours,))


def skip_tagged_fields(frame: Frame, position: int) -> int:
    """Return where the body begins behind the tagged fields of a flexible header. Raises: WireError."""
    try:
        count, position = read_uvarint(frame, position)
        if count > MAX_ITEMS:
            raise WireError(f"a request header of {count} tagged fields; the limit is {MAX_ITEMS}")
        return skip_tags(frame, position, count)
    except IndexError:
        raise WireError("a request header that is cut off") from None
