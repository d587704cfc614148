"""The service of a destination, by the scheme of its address."""

from contextlib import AbstractAsyncContextManager

from kohort.queues.forward.forwarder import Service
from kohort.queues.forward.settings import Destination


def open_service(destination: Destination) -> AbstractAsyncContextManager[Service]:
    """Return the destination's service, to be opened by `async with`. Raises: MissingExtraError."""
    if destination.is_grpc:
        from kohort.queues.forward.grpc import GrpcService  # noqa: PLC0415

        return GrpcService(destination)
    from kohort.queues.forward.http import HttpService  # noqa: PLC0415

    return HttpService(destination)
