"""A schema registry in a thread of the test's own process, beside the broker that keeps its schemas."""

import socket
import threading
from contextlib import suppress

import trio

from kohort.broker.transport.addresses import Address, bind
from kohort.registry.server import serve_registry
from kohort.testing.errors import BrokerFailed

LISTEN_BACKLOG = 128


class RunningRegistry:
    """One run of a registry, from start to end. Requests wait until it has read its topic."""

    def __init__(self, bootstrap: str, address: Address) -> None:
        """Serve at an address, where port 0 is any that is free. Raises: OSError where it is taken."""
        self._sock: socket.socket = bind(address)
        self._sock.listen(LISTEN_BACKLOG)
        host, port = self._sock.getsockname()[:2]
        self.address = Address(host, port)
        self._bootstrap = bootstrap
        self._error: Exception | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kohort-schema-registry", daemon=True)
        self._thread.start()
        self._started.wait()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except Exception as error:  # noqa: BLE001  # `close` raises it.
            self._error = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as self._scope:
            self._started.set()
            await serve_registry(self._sock, {"bootstrap_servers": self._bootstrap})

    def close(self) -> None:
        """Stop. Raises: BrokerFailed if the registry has failed."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()
        if self._error is not None:
            raise BrokerFailed("the schema registry has failed") from self._error
