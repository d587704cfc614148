"""Decodes records for a broker's live page, in a process of its own.

A record can be made so that its decoding takes all memory, never ends or crashes the interpreter: an array of
a billion nulls has six bytes, and nesting is limited by the C stack alone. The broker must survive that.
So this process has a limit of memory, ends itself when one record takes too long, and is started again.

Requests come by standard input and answers leave by standard output, each as msgpack behind its length in
four bytes. The first request is the registry's URLs with commas between them; its answer says that the
process has started.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from kohort.client.errors import KohortError
from kohort.client.schema_registry import SchemaRegistry, SchemaRegistryError
from kohort.registry.decoding import NOT_FOUND, Decode, decoder_of, schema_id_of

LENGTH_BYTES = 4
TEXT_CHARACTERS_MAX = 4_096
PROBLEM_CHARACTERS_MAX = 500
MEMORY_BYTES_MAX = 384 * 1024 * 1024
"""The limit of what it allocates, where the system has such limits."""
RECORD_SECONDS_MAX = 10
"""The broker ends this process much earlier. But the broker may have been killed."""
REGISTRY_SECONDS = 0.8
"""For all questions about a schema, to all URLs; then the broker waits no longer."""
VERSIONS_SECONDS_MIN = 0.05
"""With less time left, subjects and versions are not asked for."""
KNOWN_SECONDS = 60.0
UNKNOWN_SECONDS = 5.0
"""How long the registry is not asked again for a schema, and for one that it did not give."""
SCHEMAS_MAX = 500


class Request(msgspec.Struct, frozen=True):
    """A record's key or value, which begins with the id of a schema."""

    topic: str
    is_key: bool
    data: bytes


class Decoded(msgspec.Struct, frozen=True):
    """What a registry tells of data. `problem` says why there is no text."""

    schema_id: int
    type: str | None = None
    subject: str | None = None
    version: int | None = None
    text: str | None = None
    """JSON, or its beginning."""
    is_cut: bool = False
    problem: str = ""


class _Schema(NamedTuple):
    """What the registry has told of an id."""

    until: float
    decode: Decode | None = None
    type: str | None = None
    versions: tuple[tuple[str, int], ...] = ()
    problem: str = ""


class RecordDecoder:
    """Decodes data by the schemas of a registry."""

    def __init__(self, *urls: str) -> None:
        """Raises: ConfigurationError for an invalid URL."""
        self._urls = urls
        self._forget()

    def _forget(self) -> None:
        self._registry = SchemaRegistry(*self._urls, timeout_seconds=REGISTRY_SECONDS / len(self._urls))
        self._schemas: dict[int, _Schema] = {}

    def decoded(self, request: Request) -> Decoded:
        """Return the data as JSON, or why it cannot be decoded."""
        schema_id = schema_id_of(request.data)
        assert schema_id is not None, "the broker sends no other data"
        schema = self._schema(schema_id)
        subject, version = _subject(schema.versions, request)
        found = Decoded(schema_id, schema.type, subject, version, problem=schema.problem)
        if schema.decode is None:
            return found
        try:
            text = schema.decode(request.data)
        except KohortError as error:
            return msgspec.structs.replace(found, problem=str(error))
        except MemoryError:
            return msgspec.structs.replace(found, problem="it needs too much memory")
        shown = text[:TEXT_CHARACTERS_MAX]
        return msgspec.structs.replace(found, text=shown, is_cut=len(shown) < len(text))

    def _schema(self, schema_id: int) -> _Schema:
        schema = self._schemas.get(schema_id)
        if schema is None or schema.until < time.monotonic():
            if len(self._schemas) >= SCHEMAS_MAX:
                self._forget()
            schema = self._schemas[schema_id] = self._asked(schema_id)
        return schema

    def _asked(self, schema_id: int) -> _Schema:
        deadline = time.monotonic() + REGISTRY_SECONDS
        try:
            decode = decoder_of(schema_id, self._registry)
        except KohortError as error:
            is_unknown = isinstance(error, SchemaRegistryError) and error.status == NOT_FOUND
            problem = f"the schema registry has no schema {schema_id}" if is_unknown else str(error)
            return _Schema(time.monotonic() + UNKNOWN_SECONDS, problem=problem)
        kind = self._registry.schema(schema_id).kind
        left_seconds = deadline - time.monotonic()
        if left_seconds < VERSIONS_SECONDS_MIN:
            return _Schema(time.monotonic() + UNKNOWN_SECONDS, decode, kind)
        versions = self._versions(schema_id, left_seconds / len(self._urls))
        return _Schema(time.monotonic() + KNOWN_SECONDS, decode, kind, versions)

    def _versions(self, schema_id: int, timeout_seconds: float) -> tuple[tuple[str, int], ...]:
        """Return the subjects and versions; none where the registry does not tell them."""
        try:
            return tuple(self._registry.versions(schema_id, timeout_seconds=timeout_seconds))
        except KohortError:
            return ()


def answer_of(decoder: RecordDecoder, content: bytes) -> bytes:
    """Return the answer to a request, also where its decoding fails: others follow."""
    request = msgspec.msgpack.decode(content, type=Request)
    try:
        return msgspec.msgpack.encode(decoder.decoded(request))
    except Exception as error:  # noqa: BLE001  # A supervisor: data and registries are strangers'.
        words = f"{type(error).__name__}: {error}"[:PROBLEM_CHARACTERS_MAX]
        problem = f"it cannot be decoded: {words.encode(errors='backslashreplace').decode()}"
        return msgspec.msgpack.encode(Decoded(schema_id_of(request.data) or 0, problem=problem))


def _subject(versions: tuple[tuple[str, int], ...], request: Request) -> tuple[str | None, int | None]:
    """Return the subject and version of a schema. The usual subject of the topic comes before others."""
    usual = f"{request.topic}-{'key' if request.is_key else 'value'}"
    ordered = sorted(versions, key=lambda each: (each[0] == usual, each[1]))
    return ordered[-1] if ordered else (None, None)


def main() -> None:
    """Serve until the end of standard input."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # What a library prints is no answer.
    _limit_memory()
    urls = _received(sys.stdin.buffer)
    if urls is None:
        return
    decoder = RecordDecoder(*(each.strip() for each in urls.decode().split(",")))
    _send(answers, b"")
    while (content := _received(sys.stdin.buffer)) is not None:
        _set_alarm(RECORD_SECONDS_MAX)
        answer = answer_of(decoder, content)
        _set_alarm(0)
        _send(answers, answer)


def _received(source: BinaryIO) -> bytes | None:
    length = source.read(LENGTH_BYTES)
    return source.read(int.from_bytes(length)) if len(length) == LENGTH_BYTES else None


def _send(target: BinaryIO, content: bytes) -> None:
    target.write(len(content).to_bytes(LENGTH_BYTES) + content)
    target.flush()


def _set_alarm(seconds: int) -> None:
    """Have the system end this process after so many seconds, where it can; 0 takes that back."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _limit_memory() -> None:
    """Limit this process's memory; where memory is short, the system ends this process before the broker."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    try:
        import resource  # noqa: PLC0415  # Windows has none.
    except ImportError:
        return
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
