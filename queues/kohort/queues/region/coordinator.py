"""The process that decides for a region: one of several, which take over from each other."""

import logging
from collections.abc import Mapping
from secrets import token_hex
from typing import Unpack

import anyio

from kohort.client.aio import Consumer, RebalanceListener
from kohort.client.config import ConsumerOptions
from kohort.client.errors import KohortError
from kohort.client.listener import Partitions
from kohort.client.retry import Backoff, monotonic_ms
from kohort.queues.clock import wall_ms
from kohort.queues.joining import has_joined
from kohort.queues.options import consumer_options
from kohort.queues.region.alone import one_error
from kohort.queues.region.coordinating import Coordinating, Region
from kohort.queues.region.entries import Claim
from kohort.queues.region.log import RegionLog
from kohort.queues.region.standing import status_of

logger = logging.getLogger(__name__)

POLL_MS = 20


class RegionCoordinator:
    """await RegionCoordinator(region, bootstrap_servers="localhost:9092").run()

    Start one or two. They are a group over the log's only partition: who has it, rules. It keeps nothing
    but what stands in the log. `rules` says whether this one decides now.
    """

    def __init__(self, region: Region, **options: Unpack[ConsumerOptions]) -> None:
        self.region = region
        self._options = options
        self.rules = False
        self._core: Coordinating | None = None
        self._log: RegionLog | None = None
        self._consumer: Consumer[bytes, bytes] | None = None
        self._written = 0
        self._stopping = False

    @property
    def is_ready(self) -> bool:
        """Whether it has joined the coordinators' group, and does not stop."""
        return not self._stopping and self._consumer is not None and has_joined(self._consumer)

    def status(self) -> Mapping[str, object]:
        """Return how the region stands, and whether this coordinator decides for it."""
        return {"rules": self.rules, **status_of(self.region, self._log)}

    def stop(self) -> None:
        """Let `run` end soon."""
        self._stopping = True

    async def run(self) -> None:
        """Decide until `stop`. Once. Raises: KohortError for what no waiting mends."""
        backoff = Backoff(100, 5_000)
        async with one_error(), RegionLog(self.region, self._options) as log:
            self._log = log
            # Never static by the environment: another coordinator takes over as soon as this one stops.
            options: ConsumerOptions = {"group_instance_id": None, **self._options}
            consumer: Consumer[bytes, bytes] = Consumer(
                self.region.log_topic,
                listener=_Listener(self),
                **consumer_options(options, self.region.coordinators_group_id),
            )
            self._consumer = consumer
            async with consumer:
                while not self._stopping:
                    try:
                        await consumer.poll(timeout_ms=POLL_MS)
                        await self._step(log)
                        backoff.reset()
                    except KohortError as error:
                        if not error.retriable:
                            raise
                        logger.warning("region %s waits: %s", self.region.name, str(error))
                        await anyio.sleep(backoff.next_ms() / 1000)

    async def _step(self, log: RegionLog) -> None:
        if not self.rules:
            self._core = None
            return
        if self._core is None:
            await self._take_over(log)
        elif log.position > self._written:
            after = self._core.decide(log.view, monotonic_ms(), wall_ms())
            if after is not None:
                self._written = await log.write(after)
                if log.view.state is None or after.phase != log.view.state.phase:
                    logger.info("region %s: %s (%s)", self.region.name, after.phase, after.reason)

    async def _take_over(self, log: RegionLog) -> None:
        """Claim the region: once that is read, whoever ruled before does so no longer."""
        claim = Claim(token_hex(8))
        self._written = await log.write(claim)
        self._core = Coordinating(self.region, claim.token)

    def become_ruler(self) -> None:
        """Rule; the group's partition itself is not read here."""
        assert self._consumer is not None
        self.rules = True
        self._consumer.pause()

    def resign(self) -> None:
        """Let another rule."""
        self.rules = False


class _Listener(RebalanceListener):
    def __init__(self, coordinator: RegionCoordinator) -> None:
        self._coordinator = coordinator

    async def on_assigned(self, partitions: Partitions) -> None:
        if partitions:
            self._coordinator.become_ruler()

    async def on_revoked(self, partitions: Partitions) -> None:
        if partitions:
            self._coordinator.resign()

    async def on_lost(self, partitions: Partitions) -> None:
        self._coordinator.resign()
