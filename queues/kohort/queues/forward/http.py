"""A service that records are POSTed to.

The body is the record's value. Its place travels in headers: kafka-topic, kafka-partition, kafka-offset,
kafka-key (base64), kafka-timestamp-ms, kafka-group, kafka-attempt, kafka-value-is-null; the record's own
headers that are text as kafka-header-NAME, `traceparent` and `tracestate` under their own names. No redirects
are followed.
"""

import base64
import ssl
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from kohort.client.values import AnyRecord
from kohort.queues.forward.answers import BrokenAnswerError
from kohort.queues.forward.connections import Connections, NotReachedError
from kohort.queues.forward.envelope import envelope_of, own_headers
from kohort.queues.forward.settings import Destination
from kohort.queues.forward.verdict import Verdict, of_http, timed_out, unreached

TRACING = {"traceparent", "tracestate"}


class HttpService:
    """One destination's connections, open within `async with`. Raises: OSError without its `ca_file`."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._connections = Connections(destination.parts, tls_of(destination))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.close()

    async def push(self, record: AnyRecord, attempt: int) -> Verdict:
        """Return what the service says of the record: all of it within the time-out."""
        destination = self._destination
        try:
            told = {**metadata_of(record, destination, attempt), **authorization(destination)}
        except (OSError, ValueError) as error:
            return unreached(f"no token: {error}")
        connection = None
        with anyio.CancelScope(deadline=anyio.current_time() + destination.timeout_ms / 1000):
            try:
                connection = await self._connections.connection()
                answer = await self._connections.post(connection, told.items(), record.value or b"")
            except NotReachedError as error:
                return unreached(f"not reached: {error}")
            except BrokenAnswerError as error:  # Somebody was there, and may have it.
                return timed_out(destination.timeout_ms)._replace(why=str(error))
            return of_http(answer.status, answer.headers)
        if connection is None:
            return unreached(f"not reached within {destination.timeout_ms} ms")
        return timed_out(destination.timeout_ms)


def tls_of(destination: Destination) -> ssl.SSLContext | None:
    """Return whom is trusted; None where nothing is encrypted. Raises: OSError."""
    if destination.parts.scheme != "https":
        return None
    context = ssl.create_default_context(cafile=destination.ca_file or None)
    context.set_alpn_protocols(["http/1.1"])
    return context


def metadata_of(record: AnyRecord, destination: Destination, attempt: int) -> dict[str, str]:
    """Return what a service is told of a record beside its value: text alone, in small letters."""
    envelope = envelope_of(record, destination.topic)
    topic, partition, offset = envelope.origin.rsplit("/", 2)
    found = {
        "kafka-topic": topic,
        "kafka-partition": partition,
        "kafka-offset": offset,
        "kafka-timestamp-ms": str(record.timestamp_ms),
        "kafka-group": destination.group_id,
        "kafka-attempt": str(attempt),
    }
    if record.value is None:
        found["kafka-value-is-null"] = "true"
    if record.key is not None:
        found["kafka-key"] = base64.b64encode(record.key).decode()
    for name, value in own_headers(record):
        text = _plain(value)
        if text is not None and name.isascii() and name.replace("-", "").replace("_", "").isalnum():
            small = name.lower()
            found[small if small in TRACING else f"kafka-header-{small}"] = text
    return found


def authorization(destination: Destination) -> dict[str, str]:
    """Return the header with the token, read anew. Raises: OSError, ValueError."""
    if not destination.token_file:
        return {}
    token = Path(destination.token_file).read_text(encoding="ascii").strip()
    if not token.isprintable():
        raise ValueError(f"what stands in {destination.token_file} is more than a line")
    return {"authorization": f"Bearer {token}"}


def _plain(value: bytes | None) -> str | None:
    """Return a header's value that can stand in a line of ASCII, where blanks around it are nothing."""
    if value is None or not value.isascii():
        return None
    text = value.decode("ascii").strip(" ")
    return text if text.isprintable() else None
