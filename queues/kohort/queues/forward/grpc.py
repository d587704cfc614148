"""A service that records are pushed to by gRPC: one unary method that takes and returns bytes, under asyncio.

The metadata are the headers of HTTP. grpcio has no types of its own, and is imported where it is needed.
"""

from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kohort.client.errors import MissingExtraError
from kohort.client.values import AnyRecord
from kohort.queues.forward.http import authorization, metadata_of
from kohort.queues.forward.settings import Destination
from kohort.queues.forward.verdict import Verdict, of_grpc, timed_out, unreached

UNREACHED_WORDS = ("failed to connect", "connection refused", "name resolution", "dns resolution")


class GrpcService:
    """One destination's channel, open within `async with`. Raises: MissingExtraError without grpcio."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._aio: Any = grpc_aio()

    async def __aenter__(self) -> Self:
        self._channel = open_channel(self._destination)
        self._call = self._channel.unary_unary(self._destination.parts.path)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def push(self, record: AnyRecord, attempt: int) -> Verdict:
        """Return what the service says of the record."""
        destination = self._destination
        try:
            told = {**metadata_of(record, destination, attempt), **authorization(destination)}
        except (OSError, ValueError) as error:
            return unreached(f"no token: {error}")
        metadata = tuple((key, text.encode() if key.endswith("-bin") else text) for key, text in told.items())
        call = self._call(record.value or b"", timeout=destination.timeout_ms / 1000, metadata=metadata)
        try:
            await call
        except self._aio.AioRpcError as error:
            code, details = error.code().name, error.details() or ""
            if code == "DEADLINE_EXCEEDED":
                return timed_out(destination.timeout_ms)
            if is_unreached(code, details):
                return unreached(f"not reached: {details}")
            trailing = {
                key: value for key, value in error.trailing_metadata() or () if isinstance(value, str)
            }
            return of_grpc(code, trailing, details)
        return of_grpc("OK", {})


def grpc_aio() -> Any:
    """Return gRPC's module for asyncio. Raises: MissingExtraError without grpcio."""
    try:
        return import_module("grpc.aio")
    except ImportError as error:
        raise MissingExtraError('gRPC needs grpcio: pip install "kohort[queues]"') from error


def open_channel(destination: Destination) -> Any:
    """Return a channel to the service. It connects with the first call. Raises: OSError without `ca_file`."""
    aio, parts = grpc_aio(), destination.parts
    host = parts.hostname or ""
    address = f"[{host}]:{parts.port or 443}" if ":" in host else f"{host}:{parts.port or 443}"
    if parts.scheme != "grpcs":
        return aio.insecure_channel(address)
    ca = Path(destination.ca_file).read_bytes() if destination.ca_file else None
    return aio.secure_channel(address, import_module("grpc").ssl_channel_credentials(ca))


def is_unreached(code: str, details: str) -> bool:
    """Whether an error says that there was no connection, so that the service has nothing."""
    return code == "UNAVAILABLE" and any(each in details.lower() for each in UNREACHED_WORDS)
