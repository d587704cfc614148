"""The `kohort` command.

`serve` goes straight to the broker: no option parser and no client library is imported on its way, so
that a broker starts as fast as it can.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

    from kohort.broker.http.security import HttpSecurity
    from kohort.broker.transport.addresses import Address


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0, 1 for a failure, 2 for a wrong use."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv[:1] == ["serve"]:
        from kohort.broker.runtime.garbage import without_collections

        with without_collections():  # All that is imported stays.
            from kohort.broker.main import main as serve

        return serve(argv[1:], serve_registry, serve_controlled)
    from kohort.cli.commands import run

    return run(argv)


async def serve_registry(
    sock: "socket.socket", bootstrap: str, hosts: Sequence[str], security: "HttpSecurity | None"
) -> None:
    """Serve a schema registry beside a broker until cancelled; it and its client are imported by a thread."""
    import trio

    beside = await trio.to_thread.run_sync(import_module, "kohort.registry.beside")
    await beside.serve_beside(sock, bootstrap, hosts, security)


def serve_controlled(
    settings: dict[str, str],
    kafka: "Address",
    http: "Address",
    control: "Address",
    registry: "Address | None",
) -> None:
    """Serve a test's broker with a control port until a signal."""
    from kohort.testing.control import serve_controlled as serve

    serve(settings, kafka, http, control, registry)
