"""Frames of Kafka's protocol, each taken apart into rows: offset, bytes, field, meaning.

What stands where comes from the declarations of `kohort.protocol`, by way of construct.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from kohort.cli.wire_meaning import is_secret, leaf, meaning
from kohort.protocol.batch_constructs import trace_batches
from kohort.protocol.constructs import Span, construct_of, trace
from kohort.protocol.consumer import (
    NEWEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.framing import LENGTH_BYTES
from kohort.protocol.headers import RequestHeader, ResponseHeader
from kohort.protocol.registry import EVERY_API, Api, api_of
from kohort.protocol.schema import Message

HEADER_BYTES_MIN = 8  # Of a request: API key, version, correlation id.
PENDING_MAX = 10_000
FRAME_BYTES_MAX = 128 << 20
"""Of larger ones nothing is shown; Kafka takes requests of 100 MiB."""
ROWS_MAX = 250_000
"""So many fields of a frame are shown."""
SASL_APIS = ("SaslAuthenticate", "AlterUserScramCredentials")
UNKNOWN_TAG = "unknown tagged field"
API_VERSIONS, SASL_HANDSHAKE = "ApiVersions", "SaslHandshake"
CONFIGS = "Configs"
"""In the names of the APIs whose values may be secret settings."""
NAMES_OF_SETTINGS = ("name", "config_name")
CONSUMER_PROTOCOL: dict[tuple[str, str], type[Message]] = {
    ("JoinGroup", "metadata"): ConsumerProtocolSubscription,
    ("DescribeGroups", "member_metadata"): ConsumerProtocolSubscription,
    ("SyncGroup", "assignment"): ConsumerProtocolAssignment,
    ("DescribeGroups", "member_assignment"): ConsumerProtocolAssignment,
}
"""Bytes in which consumers say what they read: API and field. Other members write there what they like."""


class TooMany(Exception):
    """A frame has more fields than anybody reads, and than memory is to be taken for."""


class Row(NamedTuple):
    """Some bytes of a frame, and what they say."""

    offset: int
    data: bytes | None
    """None where they are masked."""
    size: int
    field: str
    meaning: str
    is_decompressed: bool = False


class Reading(Struct, frozen=True):
    """One frame, taken apart as far as it could be."""

    title: str
    api: str
    is_answer: bool
    version: int
    correlation_id: int
    rows: tuple[Row, ...]
    problem: str = ""
    """Why the rest could not be read; nothing where all was."""


def known_api(api_key: int) -> Api | None:
    """Return the API that has this key, those included that the broker here does not answer."""
    return EVERY_API.get(api_key) or api_of(api_key)


def _is_request(frame: bytes) -> bool:
    """Return whether a frame begins as requests do, API and version: the name of a user may be the former."""
    api = known_api(int.from_bytes(frame[4:6], "big", signed=True))
    return api is not None and int.from_bytes(frame[6:8], "big", signed=True) in api.versions


def split_frames(data: bytes) -> list[bytes]:
    """Return the frames that follow each other in `data`, each with its length.

    Bytes that do not begin with a length that fits are one frame without its length.
    """
    frames: list[bytes] = []
    position = 0
    while len(data) - position >= LENGTH_BYTES:
        length = int.from_bytes(data[position : position + LENGTH_BYTES], "big", signed=True)
        stop = position + LENGTH_BYTES + length
        if length < LENGTH_BYTES or (stop > len(data) and not frames and length > len(data) * 2):
            break
        frames.append(data[position:stop])
        position = stop
        if stop >= len(data):
            return frames
    if not frames:
        return [len(data).to_bytes(LENGTH_BYTES, "big") + data]
    return [*frames, data[position:]]


class FrameReading:
    """Takes one frame apart; what is secret is masked unless `shows_secrets`."""

    def __init__(self, frame: bytes, *, shows_secrets: bool = False) -> None:
        self.frame = frame
        self.rows: list[Row] = []
        self._api_name = ""
        self._shows_secrets = shows_secrets
        self._setting: str | None = None  # The name that stood last before a value.
        self._cut_short = ""
        self._batch: dict[str, int] = {}  # Of the header of the batch under way.

    def request(self) -> tuple[Reading, Api | None]:
        """Return the frame as a request, and its API where that is known."""
        api_key, version = (int.from_bytes(self.frame[at : at + 2], "big", signed=True) for at in (4, 6))
        api = known_api(api_key)
        problem = ""
        try:
            self._request(api, api_key, version)
        except WireError as error:
            problem = str(error)
        except TooMany:
            self._say_that_more_is_there()
        correlation_id = int.from_bytes(self.frame[8:12], "big", signed=True)
        name = api.name if api is not None else f"API {api_key}"
        return self._reading(name, version, correlation_id, problem), api

    def _request(self, api: Api | None, api_key: int, version: int) -> None:
        """Take a request apart. Raises: WireError."""
        frame = self.frame
        self._length()
        if len(frame) < LENGTH_BYTES + HEADER_BYTES_MIN:
            raise WireError(f"a request of {len(frame) - LENGTH_BYTES} bytes has no whole header")
        if api is None:
            self._add_span(Span(4, frame[4:6], "request_api_key", "value", "int16", api_key))
            raise WireError(f"API key {api_key} is none that kohort knows")
        is_known = version in api.versions
        header_version = api.request_header_version(version) if is_known else 1
        _, end = trace(construct_of(RequestHeader, header_version), frame[4:], self._add_span, base=4)
        if not is_known:
            raise WireError(f"{api.name} {version} is not among the versions known here: {api.versions}")
        self._body(api, api.request, version, end)

    def answer(self, api: Api, version: int) -> Reading:
        """Return the frame as the answer to a request of that API and version."""
        correlation_id = int.from_bytes(self.frame[4:8], "big", signed=True)
        problem = ""
        try:
            self._length()
            header_version = api.response_header_version(version)
            _, end = trace(
                construct_of(ResponseHeader, header_version), self.frame[4:], self._add_span, base=4
            )
            code = int.from_bytes(self.frame[end : end + 2], "big", signed=True)
            if api.name == API_VERSIONS and code == ErrorCode.UNSUPPORTED_VERSION:
                version = 0  # As clients expect, which asked in a version that the broker does not know.
            self._body(api, api.response, version, end)
        except WireError as error:
            problem = str(error)
        except TooMany:
            self._say_that_more_is_there()
        return self._reading(api.name, version, correlation_id, problem, is_answer=True)

    def token(self, *, is_answer: bool) -> Reading:
        """Return the frame as bytes of SASL that stand in no request (SaslHandshake 0)."""
        self._length()
        self._add_span(Span(4, self.frame[4:], "auth_bytes", "value", "bytes", self.frame[4:]))
        side = "server" if is_answer else "client"
        return Reading(
            title=f"SASL token of the {side}, {len(self.frame)} bytes",
            api="",
            is_answer=is_answer,
            version=-1,
            correlation_id=-1,
            rows=tuple(self.rows),
        )

    def _say_that_more_is_there(self) -> None:
        last = self.rows[-1]
        words = f"only the first {ROWS_MAX:,} fields are shown"
        self.rows.append(Row(last.offset + last.size, b"", 0, "", words))

    def _length(self) -> None:
        length = int.from_bytes(self.frame[:4], "big", signed=True)
        self._add_span(Span(0, self.frame[:4], "length", "value", "int32", length))
        there = len(self.frame) - LENGTH_BYTES
        if length > there:
            self._cut_short = f"cut short: only {there} of {length} bytes are here"
            self._row(Span(4, b"", "length", "remark", "", self._cut_short))

    def _body(self, api: Api, kind: type[Message], version: int, position: int) -> None:
        self._api_name = api.name
        _, end = trace(construct_of(kind, version), self.frame[position:], self._add_span, base=position)
        rest = self.frame[end:]
        if rest:  # Kafka passes over it, and some clients count on that.
            self._row(Span(end, rest, "", "remark", "", f"{len(rest)} bytes behind the message"))

    def _add_span(self, span: Span) -> None:
        self._row(span)
        if span.part != "value":
            return
        name = leaf(span.path)
        if name in ("base_offset", "base_timestamp"):
            self._batch[name] = span.value
        if isinstance(span.value, str) and name in NAMES_OF_SETTINGS and CONFIGS in self._api_name:
            self._setting = span.value
        if not isinstance(span.value, bytes):
            return
        if span.kind.endswith("records"):
            self._records(span)
        elif (form := CONSUMER_PROTOCOL.get((self._api_name, name))) is not None:
            self._consumer_protocol(span, form)

    def _records(self, span: Span) -> None:
        if span.path.endswith(".records") and ".batches[" not in span.path:
            trace_batches(span.value, self._add_span, base=span.start, path=span.path)

    def _consumer_protocol(self, span: Span, form: type[Message]) -> None:
        """Open what consumers write; what is none of that stays closed."""
        data = span.value
        version = int.from_bytes(data[:2], "big", signed=True)
        inside: list[Span] = []

        def keep(found: Span) -> None:
            if len(inside) >= ROWS_MAX:
                raise TooMany
            inside.append(found)

        try:
            if len(data) < 2 or version < 0:
                return
            known = min(version, NEWEST_VERSION)
            trace(construct_of(form, known), data[2:], keep, base=span.start + 2)
        except WireError:
            return
        self._row(Span(span.start, data[:2], f"{span.path}.version", "value", "int16", version))
        for each in inside:
            self._row(each._replace(path=f"{span.path}.{each.path}"))

    def _row(self, span: Span) -> None:
        if len(self.rows) >= ROWS_MAX:
            raise TooMany
        has_secret = not self._shows_secrets and self._is_secret(span)
        suffix = "" if span.part in ("value", "remark", "tags") else f" {span.part}"
        self.rows.append(
            Row(
                span.start,
                None if has_secret else span.data,
                len(span.data),
                f"{span.path}{suffix}",
                f"{len(span.data)} bytes, masked"
                if has_secret
                else meaning(span, self._api_name, self._batch),
                span.is_decompressed,
            )
        )

    def _is_secret(self, span: Span) -> bool:
        is_stray = span.kind == UNKNOWN_TAG or (span.part == "remark" and bool(span.data))
        if is_stray and self._api_name in SASL_APIS:
            return True  # It may be a password with a wrong length.
        is_text = span.part == "value" and isinstance(span.value, str | bytes)
        return is_text and is_secret(span, self._setting)

    def _reading(
        self, name: str, version: int, correlation_id: int, problem: str, *, is_answer: bool = False
    ) -> Reading:
        side = "answer" if is_answer else "request"
        return Reading(
            title=f"{name} v{version} {side}, correlation id {correlation_id}, {len(self.frame)} bytes",
            api=name,
            is_answer=is_answer,
            version=version,
            correlation_id=correlation_id,
            rows=tuple(self.rows),
            problem=problem or self._cut_short,
        )


class Conversation:
    """One connection: which request each answer answers."""

    def __init__(self, *, shows_secrets: bool = False) -> None:
        self._shows_secrets = shows_secrets
        self._pending: dict[int, tuple[Api, int]] = {}
        self._has_tokens = False  # Whether SASL's tokens may stand in frames of their own.

    def request(self, frame: bytes) -> Reading:
        """Return what a client sends; its answer is known by it."""
        reader = FrameReading(frame, shows_secrets=self._shows_secrets)
        if self._has_tokens and not _is_request(frame):
            return reader.token(is_answer=False)
        reading, api = reader.request()
        if api is not None:
            self._has_tokens = api.name == SASL_HANDSHAKE and reading.version == 0
            while len(self._pending) >= PENDING_MAX:  # Those without an answer: acks=0.
                del self._pending[next(iter(self._pending))]
            self._pending[reading.correlation_id] = api, reading.version
        return reading

    def asked(self, frame: bytes) -> tuple[Api, int] | None:
        """Return the API and version that this answers, None where no request is known."""
        return self._pending.get(int.from_bytes(frame[4:8], "big", signed=True))

    def answer(self, frame: bytes) -> Reading:
        """Return what a broker answers."""
        reader = FrameReading(frame, shows_secrets=self._shows_secrets)
        found = self._pending.pop(int.from_bytes(frame[4:8], "big", signed=True), None)
        if found is not None:
            return reader.answer(*found)
        if self._has_tokens:
            return reader.token(is_answer=True)
        shown = frame if self._shows_secrets else None  # It may answer a SaslAuthenticate.
        return Reading(
            title=f"answer to a request that was not seen, {len(frame)} bytes",
            api="",
            is_answer=True,
            version=-1,
            correlation_id=int.from_bytes(frame[4:8], "big", signed=True),
            rows=(Row(0, shown, len(frame), "", "of which API and version, only its request says"),),
        )


def as_json(reading: Reading) -> dict[str, Any]:
    """Return what JSON can be made of."""
    return {
        "api": reading.api,
        "answer": reading.is_answer,
        "version": reading.version,
        "correlation_id": reading.correlation_id,
        "fields": [_row_json(each) for each in reading.rows],
        "problem": reading.problem or None,
    }


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "offset": row.offset,
        "size": row.size,
        "bytes": None if row.data is None else row.data.hex(),
        "field": row.field,
        "meaning": row.meaning,
        **({"decompressed": True} if row.is_decompressed else {}),
    }


BYTES_PER_LINE = 8
FIELD_WIDTH_MIN, FIELD_WIDTH_MAX = 20, 48


def lines_of(reading: Reading, *, all_bytes: bool = False) -> Iterator[str]:
    """Yield the lines that show a frame; long values show their first bytes unless `all_bytes`."""
    yield reading.title
    longest = max((len(_indented(row.field)) for row in reading.rows), default=0)
    width = min(max(longest, FIELD_WIDTH_MIN), FIELD_WIDTH_MAX)
    if reading.rows:
        yield f"  {'offset':<7} {'bytes':<24} {'field':<{width}} meaning"
    for row in reading.rows:
        first, *others = _pieces(row)
        mark = "~" if row.is_decompressed else ""
        more = "+" if row.size > BYTES_PER_LINE and not all_bytes else " "
        offset = f"{mark}{row.offset:05x}"
        yield f"  {offset:<7} {first:<23}{more} {_indented(row.field):<{width}} {row.meaning}".rstrip()
        for number, piece in enumerate(others if all_bytes else (), 1):
            offset = f"{mark}{row.offset + number * BYTES_PER_LINE:05x}"
            yield f"  {offset:<7} {piece}"
    if reading.problem:
        yield f"  damaged here: {reading.problem}"


def _pieces(row: Row) -> list[str]:
    """Return a row's bytes, some on each line; dots where they are masked."""
    if row.data is None:
        return [" ".join(["··"] * min(row.size, BYTES_PER_LINE))]
    starts = range(0, len(row.data), BYTES_PER_LINE)
    return [row.data[at : at + BYTES_PER_LINE].hex(" ") for at in starts] or [""]


def _indented(path: str) -> str:
    """Return a field's name behind that of what it stands in, a step further in for each around that."""
    *outer, last = path.split(".")
    return f"{'  ' * len(outer)}{outer[-1]}.{last}" if outer else last
