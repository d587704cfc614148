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

import httpx

from kohort.client.values import AnyRecord
from kohort.queues.forward.envelope import envelope_of, own_headers
from kohort.queues.forward.settings import Destination
from kohort.queues.forward.verdict import Verdict, of_http, timed_out, unreached

TRACING = {"traceparent", "tracestate"}
ANSWER_BYTES_MAX = 65_536


class HttpService:
    """One destination's connections, open within `async with`."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        most = destination.concurrency_max
        context = ssl.create_default_context(cafile=destination.ca_file or None)
        self._client = httpx.AsyncClient(
            timeout=destination.timeout_ms / 1000,
            verify=context,
            limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
            follow_redirects=False,
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def push(self, record: AnyRecord, attempt: int) -> Verdict:
        """Return what the service says of the record."""
        destination = self._destination
        try:
            headers = {**metadata_of(record, destination.group_id, attempt), **authorization(destination)}
        except (OSError, UnicodeDecodeError) as error:
            return unreached(f"no token: {error}")
        try:
            async with self._client.stream(
                "POST", destination.url, content=record.value or b"", headers=headers
            ) as answer:
                size = 0
                async for chunk in answer.aiter_raw():  # To its end: the connection is used again.
                    size += len(chunk)
                    if size > ANSWER_BYTES_MAX:
                        break
                return of_http(answer.status_code, answer.headers)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return unreached(f"not reached: {_words(error)}")
        except httpx.TimeoutException:
            return timed_out(destination.timeout_ms)
        except httpx.HTTPError as error:  # Somebody was there, and may have it.
            return timed_out(destination.timeout_ms)._replace(why=f"{type(error).__name__}: {error}")


def metadata_of(record: AnyRecord, group_id: str, attempt: int) -> dict[str, str]:
    """Return what a service is told of a record beside its value: text alone, in small letters."""
    envelope = envelope_of(record)
    topic, partition, offset = envelope.origin.rsplit("/", 2)
    found = {
        "kafka-topic": topic,
        "kafka-partition": partition,
        "kafka-offset": offset,
        "kafka-timestamp-ms": str(record.timestamp_ms),
        "kafka-group": group_id,
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
    """Return the header with the token, read anew. Raises: OSError, UnicodeDecodeError."""
    if not destination.token_file:
        return {}
    return {"authorization": f"Bearer {Path(destination.token_file).read_text(encoding='ascii').strip()}"}


def _words(error: BaseException) -> str:
    """Return the first words that there are: of some failures httpx has none, and what caused them has."""
    found: BaseException | None = error
    while found is not None and not str(found):
        found = found.__cause__ or found.__context__
    return str(found) if found is not None else type(error).__name__


def _plain(value: bytes | None) -> str | None:
    """Return a header's value that can stand in a line of ASCII."""
    if value is None or not value.isascii():
        return None
    text = value.decode("ascii")
    return text if text.isprintable() else None
