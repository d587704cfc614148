"""A worker's process: started, restarted if it ends by itself, and stopped."""

import signal
import socket
import subprocess
import sys

import structlog
import trio

from kohort.broker.etcd.messages import Json
from kohort.broker.host.channel import Channel
from kohort.broker.host.keys_server import KeysServer
from kohort.broker.host.order import Order
from kohort.broker.host.relay import Relay

BACK_OFF_SECONDS_MIN = 0.1
BACK_OFF_SECONDS_MAX = 10.0
LASTING_SECONDS = 30.0
STOP_SECONDS_MAX = 30.0
OPTION = "--worker"
"""The start of a worker's command line; the descriptor of its channel follows."""

log = structlog.get_logger("kohort.host")


class WorkerFailed(OSError):
    """A worker has ended at the start; it has said why itself."""


class WorkerProcess:
    """One worker.

    It is in a process group of its own, so that a terminal's signals reach only the supervisor; but not in a
    session of its own, which Linux would schedule separately from the other processes.
    """

    def __init__(self, order: Order, server: KeysServer, relay: Relay) -> None:
        self._order = order
        self._server = server
        self._relay = relay
        self._process: trio.Process | None = None
        self._stopping = trio.Event()
        self.ready = trio.Event()
        """Set once it serves, the first time."""

    async def run(self) -> None:
        """Keep it running until `stop`, and return when it has ended.

        Raises: WorkerFailed where it ends before it has ever served.
        """
        back_off_seconds = BACK_OFF_SECONDS_MIN
        while not self._stopping.is_set():
            began = trio.current_time()
            status = await self._live()
            if self._stopping.is_set():
                return
            if not self.ready.is_set():
                raise WorkerFailed(f"worker {self._order.number} did not start")
            if trio.current_time() - began > LASTING_SECONDS:
                back_off_seconds = BACK_OFF_SECONDS_MIN
            log.error(
                "a worker has ended and is started anew",
                worker=self._order.number,
                status=status,
                seconds=back_off_seconds,
            )
            with trio.move_on_after(back_off_seconds):
                await self._stopping.wait()
            back_off_seconds = min(back_off_seconds * 2, BACK_OFF_SECONDS_MAX)

    async def _live(self) -> int:
        """Return the exit status of one process, once it has ended and nothing is left of it."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "kohort.broker", OPTION, str(theirs.fileno())]
            self._process = await trio.lowlevel.open_process(
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, process_group=0
            )
        if self._stopping.is_set():
            self.signal(signal.SIGTERM)  # It could not be sent before.
        ours.setblocking(False)
        channel = Channel(ours)
        channel.send(self._order)
        self._relay.connected(self._order.number, channel)
        try:
            await self._server.serve(channel, self._receive)
            return await self._process.wait()
        finally:
            self._relay.disconnected(self._order.number)
            with trio.CancelScope(shield=True):
                await self._end()

    def _receive(self, message: Json) -> None:
        if "ready" in message:
            self.ready.set()
            log.info("a worker is ready", worker=self._order.number, pid=self.pid)
        else:
            self._relay.forward(self._order.number, message)

    @property
    def pid(self) -> int:
        """The process that serves, or has served last."""
        assert self._process is not None
        return self._process.pid

    async def _end(self) -> None:
        """Return when the process is gone; it writes its data first, unless that takes too long."""
        assert self._process is not None
        self.signal(signal.SIGTERM)
        with trio.move_on_after(STOP_SECONDS_MAX):
            await self._process.wait()
        if self._process.returncode is None:
            log.error("a worker does not end and is killed", worker=self._order.number)
            self._process.kill()
            await self._process.wait()

    def stop(self) -> None:
        """Stop it, without a restart. A second call hurries it."""
        self._stopping.set()
        self.signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
