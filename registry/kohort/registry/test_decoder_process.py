"""What the process that decodes for the page makes of registries that are silent, slow or strange."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import msgspec
import pytest

from kohort.broker.http.live.decoding import DATUM_SECONDS_MAX
from kohort.client.schema_header import with_header
from kohort.client.schema_registry import SchemaRegistry, SchemaRegistryError
from kohort.registry import decoder_process
from kohort.registry.decoder_process import Decoded, RecordDecoder, Request, answer_of

SCHEMA = {"schema": '{"type":"string"}', "schemaType": "JSON"}
VERSIONS = [{"subject": "t-value", "version": 2}]
REQUEST = Request("t", False, with_header(1, b'"hello"'))


@contextmanager
def registry(schema: object = SCHEMA, versions: object = VERSIONS, status: int = 200) -> Iterator[str]:
    """A registry that gives these answers for every id, and its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(versions if self.path.endswith("/versions") else schema).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def nobody() -> Iterator[socket.socket]:
    """A registry's socket that takes connections, where nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture
def silent(nobody: socket.socket) -> str:
    """The URL of that registry."""
    return f"http://127.0.0.1:{nobody.getsockname()[1]}"


def times_asked(nobody: socket.socket) -> int:
    """Return how many connections have come since the last look."""
    count = 0
    with suppress(BlockingIOError):
        while True:
            nobody.accept()[0].close()
            count += 1
    return count


def answered(decoder: RecordDecoder, request: Request = REQUEST) -> Decoded:
    return msgspec.msgpack.decode(answer_of(decoder, msgspec.msgpack.encode(request)), type=Decoded)


def test_another_url_answers_for_a_silent_one_in_the_time_that_the_broker_waits(
    silent: str, nobody: socket.socket
) -> None:
    with registry() as url:
        decoder = RecordDecoder(silent, url)
        assert answered(decoder) == Decoded(1, "JSON", "t-value", 2, '"hello"')
        assert times_asked(nobody) == 1
        assert answered(decoder, Request("t", False, with_header(2, b"7"))).text == "7"
        assert times_asked(nobody) == 0, "who answered is asked first"
    assert decoder_process.REGISTRY_SECONDS < DATUM_SECONDS_MAX


def test_versions_are_asked_for_later_where_no_time_is_left(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_process, "VERSIONS_SECONDS_MIN", 0.5)
    monkeypatch.setattr(decoder_process, "UNKNOWN_SECONDS", 0.0)
    with registry() as url:
        decoder = RecordDecoder(silent, url)
        assert answered(decoder) == Decoded(1, "JSON", text='"hello"')
        assert answered(decoder) == Decoded(1, "JSON", "t-value", 2, '"hello"')


@pytest.mark.parametrize(
    "versions", [["t-value"], [{"subject": "t"}], {"a": 1}, 7, [{"subject": "t", "version": "x"}]]
)
def test_a_registry_with_another_form_of_versions_decodes_without_them(versions: object) -> None:
    with registry(versions=versions) as url:
        assert answered(RecordDecoder(url)) == Decoded(1, "JSON", text='"hello"')
        with pytest.raises(SchemaRegistryError, match="has not the form of a schema registry's"):
            SchemaRegistry(url).versions(1)


@pytest.mark.parametrize(
    "schema", [[], 7, {}, {"schema": 7}, {**SCHEMA, "schemaType": 7}, {**SCHEMA, "references": ["x"]}]
)
def test_a_schema_of_another_form_is_told_of(schema: object) -> None:
    with registry(schema) as url:
        assert "has not the form of a schema registry's" in answered(RecordDecoder(url)).problem


@pytest.mark.parametrize("code", [None, "x", [1]])
def test_a_refusal_with_a_strange_code_has_that_of_http(code: object) -> None:
    with registry({"error_code": code, "message": "no"}, status=500) as url:
        with pytest.raises(SchemaRegistryError, match="500: no") as caught:
            SchemaRegistry(url).schema(1)
        assert (caught.value.status, caught.value.error_code) == (500, 500)


def test_whatever_fails_is_told_and_the_next_one_is_decoded() -> None:
    """A subject that no text can have fails where the answer is written."""
    with registry(versions=[{"subject": "\ud800", "version": 1}]) as url:
        decoder = RecordDecoder(url)
        told = answered(decoder)
        assert told.schema_id == 1
        assert told.problem.startswith("it cannot be decoded: UnicodeEncodeError: ")
        assert answered(decoder).problem == told.problem
