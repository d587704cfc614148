"""A worker: one of several brokers of a host, in a process of its own; a supervisor keeps their metadata."""

import os
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import trio

from kohort.broker import ephemeral
from kohort.broker.broker import Broker, running
from kohort.broker.cluster.member import Host, membership
from kohort.broker.composition.machine import Machine
from kohort.broker.config import BrokerConfig
from kohort.broker.etcd.messages import Json
from kohort.broker.host.channel import Channel
from kohort.broker.host.holdings import CLUSTER
from kohort.broker.host.keys_client import KeysClient
from kohort.broker.host.order import Order, read_order
from kohort.broker.http.server import LISTEN_BACKLOG, load_pages, load_questions, serve_http
from kohort.broker.logs import configure_logs
from kohort.broker.runtime.memory import return_free_memory
from kohort.broker.serving import (
    closed_http,
    http_hosts,
    status_of,
    stop_signals,
    stopped_by,
    watchdog,
    watched,
)
from kohort.broker.transport.addresses import BrokerAddresses, bind

if TYPE_CHECKING:
    from kohort.broker.http.questions import Answer, Question

SESSION_TIMEOUT_MS = 24 * 3_600 * 1_000
"""The supervisor sees a process end: no timeout expires for one that is only slow."""
HEARTBEAT_MS = 2_000

log = structlog.get_logger("kohort.broker")


def main(descriptor: int) -> int:
    """Be the worker that the supervisor at the other end of this socket orders; return the exit status."""
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)

    def run() -> None:
        order = read_order(sock)
        configure_logs(order.log_format, order.log_level, worker=order.number)
        trio.run(serve, order, sock)

    return status_of(run)


async def serve(order: Order, sock: socket.socket) -> None:
    """Serve until a signal, or until the supervisor is gone. Raises: StorageError, OSError, ConfigError."""
    sock.setblocking(False)
    config = BrokerConfig.parsed(order.settings)
    first, *more = order.listeners
    places = BrokerAddresses(first.listen, Path(order.data), first.advertise, tuple(more), order.shared)
    keys = KeysClient(Channel(sock))
    join = partial(
        membership,
        keys,
        CLUSTER,
        node_id=order.node_id,
        new_id=order.cluster_id,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_ms=HEARTBEAT_MS,
        boot_id=Machine().boot_id(),
        host=Host(order.addresses),
    )
    files = ephemeral.file_system() if order.is_ephemeral else None
    with trio.open_signal_receiver(*stop_signals()) as signals, watchdog(config, os.getppid()) as dog:
        async with trio.open_nursery() as outer:
            outer.start_soon(keys.run)
            async with (
                running(config, places, filesystem=files, join=join) as broker,
                trio.open_nursery() as nursery,
            ):
                with watched(broker, dog):
                    await serve_pages(order, config, broker, keys, nursery)
                    keys.say({"ready": True})
                    log.info("ready", kafka=",".join(map(str, broker.listening)), data=order.data)
                    return_free_memory()
                    nursery.start_soon(end_with_supervisor, keys, nursery.cancel_scope)
                    async for number in signals:
                        stopped_by(number)
                        break  # No other worker has this one's partitions: there is nothing to hand over.
                    nursery.cancel_scope.cancel()
            outer.cancel_scope.cancel()
    log.info("stopped")


async def serve_pages(
    order: Order, config: BrokerConfig, broker: Broker, keys: KeysClient, nursery: trio.Nursery
) -> None:
    """Serve the pages, where this is the worker that does; else answer that one's questions."""
    if order.http is None:
        keys.on_asked = Answering(keys, broker, nursery).answer_soon
        return
    http, security = bind(order.http, is_shared=True), closed_http(config)
    http.listen(LISTEN_BACKLOG)
    hosts = http_hosts(broker, order.http, config)
    others = order.number, OtherWorkers(order, keys)
    nursery.start_soon(serve_http, broker.view(), http, hosts, security, others)


class OtherWorkers:
    """The workers without pages, for requests of the one with pages."""

    def __init__(self, order: Order, keys: KeysClient) -> None:
        self.numbers = tuple(each for each in range(1, len(order.addresses) + 1) if each != order.number)
        self._keys = keys

    async def ask(self, worker: int, question: "Question") -> "Answer | None":
        """Return a worker's answer, None if it does not run."""
        answer = await self._keys.ask(worker, question)
        return None if answer is None else load_questions().answer_of(answer)


class Answering:
    """Answers requests of the worker that serves the pages, through internal pages without a public
    address."""

    def __init__(self, keys: KeysClient, broker: Broker, nursery: trio.Nursery) -> None:
        self._keys = keys
        self._view = broker.view()
        self._nursery = nursery
        self._app: Any = None

    def answer_soon(self, number: int, question: Json) -> None:
        """Answer soon."""
        self._nursery.start_soon(self._answer, number, question)

    async def _answer(self, number: int, question: Json) -> None:
        answer = None
        try:
            pages = await trio.to_thread.run_sync(load_pages)
            questions = await trio.to_thread.run_sync(load_questions)
            self._app = self._app or pages.application(self._view)
            answer = await questions.answered(self._app, questions.question_of(question))
        except Exception:  # The supervisor of one question: it affects no other.
            log.exception("a request of another worker failed")
        self._keys.answer(number, answer)


async def end_with_supervisor(keys: KeysClient, scope: trio.CancelScope) -> None:
    """End everything if the supervisor is gone: nobody would restart this worker, or stop it."""
    await keys.gone.wait()
    log.error("the supervisor is gone: this worker ends")
    scope.cancel()
