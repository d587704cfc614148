"""What serializers ask a schema registry, in the thread that needs it; an id is asked for once."""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ssl import SSLContext, create_default_context
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from kohort.client.errors import ConfigurationError, KohortError, NetworkError

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
TIMEOUT_SECONDS = 10.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024


class SchemaRegistryError(KohortError):
    """A schema registry refused a request, by HTTP's `status` and its own `error_code`, such as 40401."""

    def __init__(self, status: int, error_code: int, message: str) -> None:
        super().__init__(f"{error_code}: {message}")
        self.status = status
        self.error_code = error_code

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status >= 500


class RegisteredSchema(NamedTuple):
    """A schema's text, with the names and texts of all that it uses, each before what uses it.

    `kind` is AVRO, JSON or PROTOBUF.
    """

    text: str
    dependencies: tuple[tuple[str, str], ...] = ()
    kind: str = "AVRO"


class SchemaReference(NamedTuple):
    """A name by which a schema uses a version of another subject."""

    name: str
    subject: str
    version: int


class SchemaRegistry:
    """A schema registry by its URLs: `SchemaRegistry("http://127.0.0.1:8081")`, or several of one registry.

    A URL can contain a user and a password. `ssl_cafile` is a PEM file with the authority that signed the
    certificate of a registry by https; without it the system's authorities count. A URL that has not
    answered for `timeout_seconds` has failed; the one that answered last is asked first. Any thread may
    use it.
    Raises: ConfigurationError for an invalid URL or an unreadable file.
    """

    def __init__(
        self, *urls: str, ssl_cafile: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._urls = urls
        self._timeout_seconds = timeout_seconds
        self._context = None if ssl_cafile is None else _context(ssl_cafile)
        self._schemas: dict[int, RegisteredSchema] = {}
        for each in urls:
            if urlsplit(each).scheme not in ("http", "https") or not urlsplit(each).hostname:
                raise ConfigurationError(f"{each!r} is no address of a registry: give http://HOST:PORT")
        if not urls:
            raise ConfigurationError("a schema registry needs an address, such as http://127.0.0.1:8081")

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema of an id. Raises: SchemaRegistryError, NetworkError."""
        found = self._schemas.get(schema_id)
        if found is None:
            found = self._schema_of(self._ask("GET", f"/schemas/ids/{schema_id}"))
            self._schemas[schema_id] = found
        return found

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the newest schema of a subject. Raises: SchemaRegistryError, NetworkError."""
        return self._schema_of(self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest"))

    def versions(self, schema_id: int, *, timeout_seconds: float | None = None) -> list[tuple[str, int]]:
        """Return the subjects and versions that have the schema of an id.

        `timeout_seconds` is for this request alone. Raises: SchemaRegistryError, NetworkError.
        """
        path = f"/schemas/ids/{schema_id}/versions"
        found = self._ask("GET", path, timeout_seconds=timeout_seconds)
        with _known_form(path):
            return [(str(each["subject"]), int(each["version"])) for each in found]

    def register(
        self, subject: str, text: str, kind: str = "AVRO", references: Sequence[SchemaReference] = ()
    ) -> int:
        """Return the id of a schema, which is registered if it is not yet. Raises: SchemaRegistryError."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        found = self._ask("POST", path, _body(text, kind, references))
        with _known_form(path):
            return int(found["id"])

    def look_up(self, subject: str, text: str, kind: str = "AVRO") -> int:
        """Return the id of a schema that a subject has. Raises: SchemaRegistryError, NetworkError."""
        return self.registered(subject, text, kind)[0]

    def registered(
        self, subject: str, text: str, kind: str = "AVRO", references: Sequence[SchemaReference] = ()
    ) -> tuple[int, int]:
        """Return id and version of a schema that a subject has. Raises: SchemaRegistryError, NetworkError."""
        path = f"/subjects/{quote(subject, safe='')}"
        found = self._ask("POST", path, _body(text, kind, references))
        with _known_form(path):
            return int(found["id"]), int(found["version"])

    def _schema_of(self, answer: dict[str, Any]) -> RegisteredSchema:
        with _known_form("a schema"):
            kind = _text(answer.get("schemaType") or "AVRO")
            return RegisteredSchema(_text(answer["schema"]), self._dependencies(answer), kind)

    def _dependencies(self, answer: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        found: dict[tuple[str, int], tuple[str, str]] = {}

        def add(references: list[dict[str, Any]]) -> None:
            for each in references:
                place = each["subject"], each["version"]
                if place not in found:
                    path = (
                        f"/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}?deleted=true"
                    )
                    used = self._ask("GET", path)
                    add(used.get("references") or [])
                    found[place] = _text(each["name"]), _text(used["schema"])

        add(answer.get("references") or [])
        return tuple(found.values())

    def _ask(self, method: str, path: str, body: object = None, timeout_seconds: float | None = None) -> Any:
        """Return an answer of the first URL that gives one. Raises: SchemaRegistryError, NetworkError."""
        failures = []
        content = None if body is None else json.dumps(body).encode()
        urls = self._urls
        for url in urls:
            try:
                connection = _connection(url, self._context, timeout_seconds or self._timeout_seconds)
                response = _response(connection, url, method, path, content)
            except (OSError, HTTPException) as error:
                failures.append(f"{urlsplit(url).netloc.rpartition('@')[2]}: {error}")
                continue
            if failures:
                self._urls = (url, *(each for each in urls if each != url))
            return _answer(*response)
        raise NetworkError(f"the schema registry does not answer: {'; '.join(failures)}")


@contextmanager
def _known_form(what: str) -> Iterator[None]:
    """Read an answer within the block. Raises: SchemaRegistryError where it has another form."""
    try:
        yield
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        problem = f"the answer for {what} has not the form of a schema registry's"
        raise SchemaRegistryError(200, 200, f"{problem}: {error!r}") from error


def _text(value: object) -> str:
    """Return a value that is a text. Raises: TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no text")
    return value


def _body(text: str, kind: str, references: Sequence[SchemaReference]) -> dict[str, Any]:
    found: dict[str, Any] = {"schema": text, "schemaType": kind}
    return {**found, "references": [each._asdict() for each in references]} if references else found


def _context(ssl_cafile: str) -> SSLContext:
    try:
        return create_default_context(cafile=ssl_cafile)
    except OSError as error:
        raise ConfigurationError(f"ssl_cafile={ssl_cafile}: {error}") from None


def _connection(url: str, context: SSLContext | None, timeout_seconds: float) -> HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return HTTPSConnection(host, parts.port, timeout=timeout_seconds, context=context)
    return HTTPConnection(host, parts.port, timeout=timeout_seconds)


def _response(
    connection: HTTPConnection, url: str, method: str, path: str, body: bytes | None
) -> tuple[int, bytes]:
    """Return the status and the content of an answer. Raises: OSError, HTTPException."""
    parts = urlsplit(url)
    headers = {"accept": f"{MEDIA_TYPE}, application/json"}
    if body is not None:
        headers["content-type"] = MEDIA_TYPE
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["authorization"] = f"Basic {b64encode(secret.encode()).decode()}"
    try:
        connection.request(method, parts.path.rstrip("/") + path, body, headers)
        response = connection.getresponse()
        return response.status, response.read(ANSWER_BYTES_MAX)
    finally:
        connection.close()


def _answer(status: int, content: bytes) -> Any:
    """Return what an answer says. Raises: SchemaRegistryError."""
    try:
        found = json.loads(content)
    except ValueError:
        raise SchemaRegistryError(status, status, f"the answer is no JSON: {content[:80]!r}") from None
    if status != 200:
        told = found if isinstance(found, dict) else {}
        code = told.get("error_code")
        raise SchemaRegistryError(
            status, code if isinstance(code, int) else status, str(told.get("message", "refused"))
        )
    return found
