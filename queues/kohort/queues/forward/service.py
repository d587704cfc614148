"""The service of a destination, by the scheme of its address."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from kohort.client.values import AnyRecord
from kohort.queues.forward.settings import Destination
from kohort.queues.forward.verdict import Verdict


class Service(Protocol):
    """Whom records are pushed to."""

    async def push(self, record: AnyRecord, attempt: int) -> Verdict:
        """Return what the service says of the record; never raises for what the service does."""
        ...


def open_service(destination: Destination) -> AbstractAsyncContextManager[Service]:
    """Return the destination's service, to be opened by `async with`. Raises: MissingExtraError."""
    if destination.stream:
        from kohort.queues.forward.grpc_stream import GrpcStreamService  # noqa: PLC0415

        return GrpcStreamService(destination)
    if destination.is_grpc:
        from kohort.queues.forward.grpc import GrpcService  # noqa: PLC0415

        return GrpcService(destination)
    from kohort.queues.forward.http import HttpService  # noqa: PLC0415

    return HttpService(destination)


@asynccontextmanager
async def open_services(destination: Destination) -> AsyncIterator[Mapping[str, Service]]:
    """Yield the destination's own service under "", and those of its routes. Raises: MissingExtraError."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(open_service(each))
            for name, each in destination.services.items()
        }
