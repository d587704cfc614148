"""Serves the HTTP pages on a socket that listens already.

starlette and what it needs take about as long to import as half the rest of the broker: a broker that nobody
asks over HTTP never loads them.
"""

import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import trio

from kohort.broker.http.view import View
from kohort.broker.runtime.garbage import without_collections

if TYPE_CHECKING:
    from kohort.broker.http.security import HttpSecurity
    from kohort.broker.http.workers import Others

LISTEN_BACKLOG = 128


async def serve_http(
    view: View,
    sock: socket.socket,
    hosts: Iterable[str] = (),
    security: "HttpSecurity | None" = None,
    others: "tuple[int, Others] | None" = None,
) -> None:
    """Serve until cancelled. `sock` listens; it belongs to this function from now on.

    `hosts` are names that clients may use for this broker, beside `localhost` and any IP address; `security`
    is how it is closed to strangers, None where it is open. `others` are this worker's number and the other
    workers of this host, whose facts are served as well.
    """
    with sock:
        sock.setblocking(False)
        await trio.lowlevel.wait_readable(sock)  # The first client waits in the backlog for the import.
        pages = await trio.to_thread.run_sync(load_pages)
        await pages.serve(view, sock, hosts, security, others)


def load_pages() -> Any:
    """Return the module of the pages, imported with all that it needs. For a thread beside the loop.

    What an import makes stays. Meanwhile the garbage collector would look through all that the broker has,
    again and again, and find nothing: with many groups each time costs the loop a tenth of a second.
    """
    with without_collections():
        from kohort.broker.http import pages  # noqa: PLC0415  # Imported beside the loop.

        return pages


def load_questions() -> Any:
    """Return the module that passes questions on, imported with all that it needs. For a thread as well."""
    from kohort.broker.http import questions  # noqa: PLC0415  # Imported beside the loop.

    return questions
