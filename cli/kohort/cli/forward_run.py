"""The process of `kohort forward`: a forwarder for each destination, begun anew when its settings change."""

import logging
import os
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from kohort.cli.client_settings import with_settings
from kohort.cli.queue_families import (
    FORWARD,
    FORWARD_CIRCUIT,
    FORWARD_RECORDS,
    ROUTE_APART,
    ROUTE_CIRCUIT,
    ROUTE_PUSHES,
    ROUTE_RUNNING,
    metric_of,
)
from kohort.cli.queue_options import serving
from kohort.client.config import INSTANCE_ID_VARIABLE, ConsumerOptions
from kohort.client.errors import ConfigurationError, KohortError
from kohort.client.retry import Backoff
from kohort.queues.forward import Destination, Forwarder, ForwardSettings, open_services

if TYPE_CHECKING:
    from prometheus_client.core import Metric

logger = logging.getLogger(__name__)

_ACTIONS = ("done", "retry", "stash", "skip", "dead", "unreached", "relieved", "apart")


class Forwarders:
    """One forwarder for each destination that the settings name, and no others."""

    def __init__(self, settings: ForwardSettings, options: ConsumerOptions) -> None:
        self.running: dict[str, Forwarder] = {}
        self._settings = settings
        self._options = options
        self._is_asyncio = needs_asyncio(settings)
        self._wanted: dict[str, Destination] = {}
        self._ended: dict[str, anyio.Event] = {}
        self._stopping = False

    @property
    def is_ready(self) -> bool:
        """Whether all of them have joined their groups."""
        return not self._stopping and all(
            name in self.running and self.running[name].is_ready for name in self._wanted
        )

    def in_order(self) -> list[Forwarder]:
        """Return those that run, in the order of the settings."""
        return [self.running[name] for name in self._wanted if name in self.running]

    async def run(self, load: Callable[[], ForwardSettings]) -> None:
        """Push until SIGINT or SIGTERM; SIGHUP has the settings read again."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._apply(self._settings)
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
                async for each in signals:
                    if each is not signal.SIGHUP:
                        break
                    self._reload(load)
            self._stopping = True
            self._apply(ForwardSettings())

    def _reload(self, load: Callable[[], ForwardSettings]) -> None:
        try:
            settings = load()
        except (ConfigurationError, OSError) as error:
            logger.error("the settings stay as they are: %s", error)
            return
        if needs_asyncio(settings) and not self._is_asyncio:
            logger.error("the settings stay as they are: a first destination by gRPC needs a new start")
            return
        if settings.bootstrap_servers != self._settings.bootstrap_servers:
            logger.error("bootstrap_servers is taken over at a start alone")
        self._settings = settings
        self._apply(settings)
        logger.info("the settings were read again: %s destination(s)", len(settings.forward))

    def _apply(self, settings: ForwardSettings) -> None:
        """Stop what is gone or has changed, and start what is new: after its predecessor has ended."""
        wanted = {each.name: each for each in settings.forward}
        before, self._wanted = self._wanted, wanted
        for name, forwarder in list(self.running.items()):
            if wanted.get(name) != before.get(name):
                forwarder.stop()
        for name, destination in wanted.items():
            if before.get(name) != destination:
                predecessor = self._ended.get(name)
                ended = self._ended[name] = anyio.Event()
                self._tasks.start_soon(self._keep_running, destination, predecessor, ended)

    async def _keep_running(
        self, destination: Destination, predecessor: anyio.Event | None, ended: anyio.Event
    ) -> None:
        """Run one until its settings change; start it anew where it fails."""
        backoff = Backoff(500, 5_000)
        try:
            if predecessor is not None:
                await predecessor.wait()
            while self._wanted.get(destination.name) == destination and not self._stopping:
                try:
                    await self._run_one(destination)
                except* (KohortError, OSError) as group:  # A file of certificates that is not there, too.
                    logger.warning("%s starts anew: %s", destination.name, group.exceptions[0])
                    await anyio.sleep(backoff.next_ms() / 1000)
        finally:
            ended.set()

    async def _run_one(self, destination: Destination) -> None:
        async with open_services(destination) as services:
            options: ConsumerOptions = {**self._options, "group_instance_id": self._instance_id(destination)}
            forwarder = Forwarder(destination, services[""], routed=services, **options)
            self.running[destination.name] = forwarder
            try:
                if self._wanted.get(destination.name) == destination:
                    await forwarder.run()
            finally:
                del self.running[destination.name]

    def _instance_id(self, destination: Destination) -> str | None:
        """Return the environment's name; destinations that share a group are several members of it."""
        name = os.environ.get(INSTANCE_ID_VARIABLE) or None
        groups = [each.group_id for each in self._wanted.values()]
        is_shared = groups.count(destination.group_id) > 1
        return f"{name}.{destination.name}" if name is not None and is_shared else name


def needs_asyncio(settings: ForwardSettings) -> bool:
    """Return whether a destination is pushed to by gRPC: grpcio knows asyncio alone."""
    return any(each.is_grpc for each in settings.forward)


def run_forwarders(settings: ForwardSettings, load: Callable[[], ForwardSettings], http: str | None) -> None:
    """Run until told to stop. Raises: KohortError, click.UsageError."""
    options: ConsumerOptions = {
        "bootstrap_servers": settings.bootstrap_servers,
        "client_id": "kohort-forward",
        "allow_auto_create_topics": False,
    }
    forwarders = Forwarders(settings, with_settings(options))

    async def main() -> None:
        async with serving(http, _Served(forwarders)):
            await forwarders.run(load)

    anyio.run(main, backend="asyncio" if needs_asyncio(settings) else "trio")


class _Served:
    kind = "forward"

    def __init__(self, forwarders: Forwarders) -> None:
        self._forwarders = forwarders

    @property
    def is_ready(self) -> bool:
        return self._forwarders.is_ready

    def status(self) -> Mapping[str, object]:
        return {"destinations": [each.status() for each in self._forwarders.in_order()]}

    def metrics(self) -> "list[Metric]":
        told = self._forwarders.running
        states = {name: each.status() for name, each in told.items()}
        found = [
            metric_of(family, (([name], float(str(state[key]))) for name, state in states.items()))
            for key, family in FORWARD.items()
        ]
        circuits = (([name], float(state["circuit"] != "closed")) for name, state in states.items())
        records = (
            ([name, each], forwarder.counts[each]) for name, forwarder in told.items() for each in _ACTIONS
        )
        return [
            *found,
            metric_of(FORWARD_CIRCUIT, circuits),
            metric_of(FORWARD_RECORDS, records),
            *_of_routes(states),
        ]


def _of_routes(states: Mapping[str, Mapping[str, Any]]) -> "list[Metric]":
    """Return what each route of a destination has under way, has pushed, and whether it is pushed to."""
    routes = [
        ((name, route), told) for name, state in states.items() for route, told in state["routes"].items()
    ]
    return [
        metric_of(ROUTE_RUNNING, ((labels, told["running"]) for labels, told in routes)),
        metric_of(ROUTE_CIRCUIT, ((labels, float(told["circuit"] != "closed")) for labels, told in routes)),
        metric_of(ROUTE_PUSHES, ((labels, told["pushed"]) for labels, told in routes)),
        metric_of(ROUTE_APART, ((labels, float(told["apart"])) for labels, told in routes)),
    ]
