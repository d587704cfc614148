"""Serves the HTTP pages on a socket that is bound already.

hypercorn and starlette take about as long to import as the whole rest of the broker, and 7 MB: a broker
that nobody asks over HTTP never loads them.
"""

import socket
from collections.abc import Iterable
from importlib import import_module

import trio

from kohort.broker.http.view import View

LISTEN_BACKLOG = 128


async def serve_http(view: View, sock: socket.socket, hosts: Iterable[str] = ()) -> None:
    """Serve until cancelled. `sock` is bound; it belongs to this function from now on.

    `hosts` are names that clients may use for this broker, beside `localhost` and any IP address.
    """
    with sock:
        sock.setblocking(False)
        sock.listen(LISTEN_BACKLOG)
        await trio.lowlevel.wait_readable(sock)  # The first client waits in the backlog for the import.
        pages = await trio.to_thread.run_sync(import_module, "kohort.broker.http.pages")
        await pages.serve(view, sock, hosts)
