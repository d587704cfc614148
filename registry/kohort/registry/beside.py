"""The registry within a broker's process: it begins again when it fails, and the broker never hears of it."""

import logging
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio

from kohort.client.config import ClientOptions
from kohort.client.errors import KohortError
from kohort.registry.errors import RegistryError
from kohort.registry.server import serve_registry

if TYPE_CHECKING:
    from kohort.broker.http.security import HttpSecurity

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0


async def serve_beside(
    sock: socket.socket, bootstrap: str, hosts: Iterable[str], security: "HttpSecurity | None" = None
) -> None:
    """Serve on a listening socket, which belongs to this function from now on, until cancelled.

    `security` is that of the broker's own HTTP address.
    """
    with sock:
        while True:
            try:
                options: ClientOptions = {"bootstrap_servers": bootstrap}
                await serve_registry(sock.dup(), options, hosts, security=security)
            except (KohortError, RegistryError) as error:
                logger.warning("the schema registry begins again: %s", error)
            except Exception:  # The supervisor of the registry.
                logger.exception("the schema registry has failed, and begins again")
            await anyio.sleep(PAUSE_SECONDS)
