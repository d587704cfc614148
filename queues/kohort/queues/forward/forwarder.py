"""One destination's worker: consumes, pushes many at once, and commits without a gap."""

import logging
from collections import Counter
from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Unpack

import anyio
import anyio.lowlevel

from kohort.client.aio import Consumer, Producer, RebalanceListener
from kohort.client.assignors import COOPERATIVE_STICKY
from kohort.client.config import ConsumerOptions
from kohort.client.consumer_records import PolledOffsets
from kohort.client.errors import CommitFailedError, KohortError
from kohort.client.listener import Partitions
from kohort.client.retry import monotonic_ms
from kohort.client.signal import Signal
from kohort.client.values import AnyRecord
from kohort.client.workers.windows import Order
from kohort.queues.clock import wall_ms
from kohort.queues.forward.apart import Apart
from kohort.queues.forward.backlog import Backlog, Job
from kohort.queues.forward.envelope import envelope_of
from kohort.queues.forward.limits import Circuit, limits_of
from kohort.queues.forward.measured import Measured
from kohort.queues.forward.routing import RouteAction, choose
from kohort.queues.forward.service import Service
from kohort.queues.forward.settings import Destination
from kohort.queues.forward.settling import HELD_UP, Settling
from kohort.queues.forward.sharing import by_load
from kohort.queues.forward.topics import ensure_topics
from kohort.queues.forward.verdict import Action, Verdict
from kohort.queues.joining import generation_of, has_joined
from kohort.queues.options import consumer_options, producer_options

logger = logging.getLogger(__name__)

POLL_MS = 100
HEARTBEAT_INTERVAL_MS = 3_000  # Or a third of the session timeout.
COMMIT_EVERY_MS = 500
SETTLING_MAX = 100  # So many records at once are dropped or written elsewhere without a push.
PUSHES_IN_A_ROW_MAX = 64  # A service that never waits is no reason to poll late.
LOOK_AGAIN_MS = 1_000  # The wall clock, by which records are due, may be set.
APART_PUSH_MS_MAX = 2_000  # What is under way where its route is set apart may last so long.
BEHIND = Verdict(Action.APART, None, "its route was behind")


class Forwarder:
    """A member of the destination's group. Start as many as you like: they share the partitions.

    await Forwarder(destination, service, bootstrap_servers="localhost:9092").run()

    `routed` has the service of each route that pushes, by the route's name.
    """

    def __init__(
        self,
        destination: Destination,
        service: Service,
        *,
        routed: Mapping[str, Service] = MappingProxyType({}),
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.destination = destination
        self.counts: Counter[str] = Counter()
        self._services = {**routed, "": service}
        self._options = options
        session_timeout_ms = destination.session_timeout_ms
        member: ConsumerOptions = {
            "session_timeout_ms": session_timeout_ms,
            "heartbeat_interval_ms": max(min(HEARTBEAT_INTERVAL_MS, session_timeout_ms // 3), 1),
            **options,
        }
        self._measured = Measured(destination.share_every_ms)
        if member.get("group_protocol", "classic") == "classic":
            by = by_load(lambda: self._measured.tell(monotonic_ms()))
            member.setdefault("partition_assignment_strategy", [by, COOPERATIVE_STICKY])
        self._consumer: Consumer[bytes, bytes] = Consumer(
            listener=_Listener(self),
            **consumer_options(member, destination.group_id),
        )
        self._backlog = Backlog(destination.order, destination.window_max)
        self._of_routes = destination.services
        self._limits = {name: limits_of(each) for name, each in self._of_routes.items()}
        self._apart = Apart(self._limits)
        self._route_topics = destination.route_topics
        self._behind_at_ms = 0.0
        self._looks_at_ms = inf  # When the task that begins pushes looks again by itself.
        self._turns = list(self._limits)  # Routes, the one that was pushed to last at the end.
        self._without_push = 0  # So many records with a verdict are under way.
        self._scopes: dict[Job, tuple[anyio.CancelScope, float]] = {}  # And when its push began.
        self._changed = Signal()  # For the task that begins pushes.
        self._settled = Signal()  # For the one that waits for them.
        self._stopping = False
        self._has_new_topics = False
        self._last_why = ""

    def stop(self) -> None:
        """Let `run` end: what is under way is waited for and committed."""
        self._stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Push until `stop`. Once. Raises: KohortError."""
        topics = await ensure_topics(self.destination, self._options)
        self._has_new_topics = topics.are_new and self._options.get("group_instance_id") is not None
        async with (
            Producer(**producer_options(self._options)) as producer,
            self._consumer,
            anyio.create_task_group() as tasks,
        ):
            self._tasks = tasks
            self._settling = Settling(
                self.destination,
                self._backlog,
                producer,
                self._options,
                counts=self.counts,
                changed=self._changed,
            )
            self._consumer.subscribe(self.destination.topic, *topics.read)
            tasks.start_soon(self._dispatch)
            await self._poll()
            await self.hand_back(self._consumer.assignment())
            tasks.cancel_scope.cancel()

    @property
    def is_ready(self) -> bool:
        """Whether it has joined the destination's group, and does not stop."""
        return not self._stopping and has_joined(self._consumer)

    def status(self) -> Mapping[str, object]:
        """Return the destination's state as it is now. From any thread."""
        waiting = self._backlog.waiting_by_route(wall_ms())
        return {
            "name": self.destination.name,
            "topic": self.destination.topic,
            "url": self.destination.url,
            "group": self.destination.group_id,
            "generation_id": generation_of(self._consumer),
            "partitions": [str(each) for each in self._consumer.assignment()],
            "circuit": self._circuit.value,
            "running": sum(each.running for each in self._limits.values()) + self._without_push,
            "concurrency_limit": sum(each.concurrency.limit for each in self._limits.values()),
            "default_route": self._status_of("", waiting),
            "routes": {name: self._status_of(name, waiting) for name in self._limits if name},
            "delayed": sum(delayed for _, delayed in waiting.values()),
            "unfinished": self._backlog.unfinished,
            "uncommitted": self._backlog.uncommitted,
            "held_back": self._backlog.is_holding_back,
            "counts": dict(self.counts),
            "last_failure": self._last_why,
        }

    def _status_of(self, route: str, waiting: Mapping[str, tuple[int, int]]) -> Mapping[str, object]:
        """Return the state of one route; "" is where records go that no route takes."""
        limits, service = self._limits[route], self._of_routes[route]
        unfinished, delayed = waiting.get(route, (0, 0))
        return {
            "url": service.url,
            "circuit": limits.breaker.state.value,
            "running": limits.running,
            "concurrency_limit": limits.concurrency.limit,
            "rate_max": service.rate_max,
            "pushed": limits.pushed,
            "unfinished": unfinished,
            "delayed": delayed,
            "latency_ms": limits.latency_ms,
            "apart": route in self._apart,
        }

    @property
    def _circuit(self) -> Circuit:
        """Whether all services are pushed to."""
        states = [each.breaker.state for each in self._limits.values()]
        return next((each for each in states if each is not Circuit.CLOSED), Circuit.CLOSED)

    # Polling and committing: one task

    async def _poll(self) -> None:
        commit_at_ms = monotonic_ms() + COMMIT_EVERY_MS
        while not self._stopping:
            records = await self._consumer.poll(timeout_ms=POLL_MS)
            self._backlog.polled(records.assignments)
            for record in records:
                self._take(record)
                self._changed.set()
            self._set_apart()
            self._relieve()
            if full := self._backlog.to_pause():
                self._consumer.pause(*full)
            if roomy := self._backlog.to_resume():
                self._consumer.resume(*roomy)
            self._measure()
            if monotonic_ms() >= commit_at_ms:
                await self._commit(None)
                commit_at_ms = monotonic_ms() + COMMIT_EVERY_MS

    def _measure(self) -> None:
        """Note what each partition brings; let the group share them anew where that has changed.

        A static member that returns gets the assignment that it had: new topics would be read by nobody.
        """
        if self._has_new_topics and has_joined(self._consumer):
            self._has_new_topics = False
            self._consumer.enforce_rebalance("topics of its own are new")
        now_ms = monotonic_ms()
        if self._measured.is_due(now_ms):
            idle = dict.fromkeys(self._consumer.assignment(), (0, 0.0))
            self._measured.sample({**idle, **self._backlog.sums()}, now_ms)
            if self._measured.is_other_than_told(now_ms):
                self._consumer.enforce_rebalance("the load has changed")

    def _take(self, record: AnyRecord) -> None:
        """Have a record pushed by its route when it is due, or dropped, or written to the dead letters."""
        destination = self.destination
        envelope = envelope_of(record, destination.topic)
        due_ms = envelope.due_ms
        if destination.delay_ms and record.topic == destination.topic:
            due_ms = record.timestamp_ms + destination.delay_ms
        route = choose(destination.route, record)
        if route is None or route.action is RouteAction.PUSH:
            name = "" if route is None else route.name
            is_apart = (
                name in self._apart and due_ms <= wall_ms() and self._route_topics[name] != record.topic
            )
            self._backlog.add(record, due_ms, envelope.attempts + 1, name, BEHIND if is_apart else None)
            return
        action = Action.SKIP if route.action is RouteAction.DROP else Action.DEAD
        verdict = Verdict(action, None, f"route {route.name}")
        self._backlog.add(record, 0, envelope.attempts + 1, verdict=verdict)

    async def _commit(self, partitions: Partitions | None) -> None:
        offsets = self._backlog.progress(partitions)
        await self._keep_offsets(offsets)

    async def _keep_offsets(self, offsets: PolledOffsets) -> None:
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except CommitFailedError as error:
            logger.info("the group has moved on, records are pushed again: %s", str(error))
            await self._keep_offsets(offsets.without(error.partitions))
        except KohortError as error:
            if not error.retriable:
                raise
            logger.warning("a commit failed, the next one makes up for it: %s", str(error))
        else:
            self._backlog.committed(offsets)

    def _set_apart(self) -> None:
        """Have the records of routes that are behind copied to topics of their own."""
        now_ms = monotonic_ms()
        if now_ms < self._behind_at_ms or not self._route_topics:
            return
        self._behind_at_ms = now_ms + POLL_MS
        for first in self._backlog.holding():
            route, (_, began_ms) = first.route, self._scopes.get(first, (None, now_ms))
            is_elsewhere = first.record.topic != self._route_topics[route]
            if is_elsewhere and self._apart.is_set_apart(route, now_ms, now_ms - began_ms):
                logger.info("%s: route %r is behind, and set apart", self.destination.name, route)
        for route in self._apart.routes:
            topic = self._route_topics[route]
            if self._apart.come_back(route, self._backlog.unfinished_of(topic), now_ms):
                logger.info("%s: route %r is not behind any more", self.destination.name, route)
            else:
                for job in self._backlog.waiting(route, wall_ms(), topic):
                    self._backlog.decide(job, BEHIND)
                self._changed.set()

    def _relieve(self) -> None:
        """Take what holds its partition up out of the way, where no order forbids that.

        A record's last push has its time: cancelled, the record would be a dead letter.
        """
        if self.destination.order is not Order.NONE:
            return
        for job in self._backlog.blockers():
            scope, began_ms = self._scopes.get(job, (None, 0.0))
            is_apart = job.route in self._apart and monotonic_ms() - began_ms < APART_PUSH_MS_MAX
            is_last = job.attempt >= self.destination.attempts_max
            if job.is_running and (scope is None or is_apart or is_last):
                job.is_moving = False  # It is about to be pushed, is being written, or the last one here.
                continue
            self.counts["relieved"] += 1
            if scope is not None:
                self._limits[job.route].took(monotonic_ms() - began_ms)
                scope.cancel()
            else:
                self._tasks.start_soon(self._settling.move, job)

    async def hand_back(self, partitions: Partitions) -> None:
        """Push no more of these, wait for what is under way, commit, and forget them."""
        self._backlog.close(partitions)
        with anyio.move_on_after(self.destination.drain_timeout_ms / 1000):
            while self._backlog.running(partitions):
                await self._settled.wait(None)
        await self._commit(partitions)
        self._backlog.forget(partitions)

    def forget(self, partitions: Partitions) -> None:
        """Somebody else has these already."""
        self._backlog.forget(partitions)

    # Pushing: as many tasks as pushes are under way

    async def _dispatch(self) -> None:
        while True:
            job, wait_ms = self.begin_next()
            if job is None:
                self._looks_at_ms = inf if wait_ms is None else monotonic_ms() + wait_ms
                await self._changed.wait(wait_ms)
            elif job.verdict is not None:
                self._tasks.start_soon(self._see_to, job, job.verdict)
            else:
                self._tasks.start_soon(self._push_on, job)

    def begin_next(self) -> tuple[Job | None, float | None]:
        """Return a record that begins now, or how long to wait for one.

        One that has a verdict is not pushed: it takes nothing of what a service may be given.
        """
        waits_ms: list[float] = []
        if self._without_push < SETTLING_MAX:
            if (job := self._backlog.start(wall_ms(), None)) is not None:
                self._without_push += 1
                return job, 0
            waits_ms += self._until_due(None)
        job, until_ms = self._begin_push()
        return job, 0 if job is not None else min(waits_ms + until_ms, default=None)

    def _begin_push(self) -> tuple[Job | None, list[float]]:
        """Return a record that is pushed now, or how long to wait for one of each service.

        Each service has its turn: the one that was pushed to comes last next time.
        """
        waits_ms: list[float] = []
        for route in self._turns:
            limits = self._limits[route]
            if limits.is_full or not self._backlog.has_ready(route):
                continue
            if wait_ms := limits.wait_ms(monotonic_ms()):
                waits_ms.append(wait_ms)
                continue
            job = self._backlog.start(wall_ms(), route)
            if job is not None:
                self._turns.remove(route)
                self._turns.append(route)
                limits.begin()
                return job, []
            waits_ms += self._until_due(route)
        return None, waits_ms

    def _until_due(self, route: str | None) -> list[float]:
        due_ms = self._backlog.next_due_ms(route)
        return [] if due_ms is None else [min(LOOK_AGAIN_MS, max(1, due_ms - wall_ms()))]

    async def _see_to(self, job: Job, verdict: Verdict) -> None:
        """Do with the record what was said of it before, without a push."""
        try:
            await self._settling.settle(job, verdict)
        finally:
            self._without_push -= 1
            self._changed.set()
            self._settled.set()

    async def _push_on(self, job: Job | None) -> None:
        """Push a record, then others as long as some are ready: a task for each would cost too much."""
        pushes = 0
        while job is not None:
            verdict: Verdict | None = None
            with anyio.CancelScope() as scope:
                while job is not None:
                    verdict = await self._push(job, scope)
                    if scope.cancel_called:  # It was answered in that very moment.
                        break
                    job, verdict = await self._pushed(job, verdict), None
                    pushes += 1
                    if not pushes % PUSHES_IN_A_ROW_MAX:
                        await anyio.lowlevel.checkpoint()
            if job is not None:
                job = await self._pushed(job, verdict or HELD_UP)

    async def _push(self, job: Job, scope: anyio.CancelScope) -> Verdict:
        began_ms = monotonic_ms()
        self._scopes[job] = scope, began_ms
        try:
            verdict = await self._services[job.route].push(job.record, job.attempt)
        finally:
            del self._scopes[job]
        took_ms = monotonic_ms() - began_ms
        job.track.pushed_ms += took_ms
        job.track.pushed_bytes += len(job.record.value or b"")
        self._learn(job, verdict, took_ms)
        return verdict

    async def _pushed(self, job: Job, verdict: Verdict) -> Job | None:
        """Do with a record what its service said, and return one that is pushed now in its place."""
        limits = self._limits[job.route]
        try:
            await self._settling.settle(job, verdict)
        finally:
            limits.running -= 1
            self._settled.set()
        found, waits_ms = self._begin_push()
        if found is not None:
            if not limits.is_full:
                self._changed.set()  # There is room for more than this one.
        elif waits_ms and monotonic_ms() + min(waits_ms) < self._looks_at_ms:
            self._changed.set()
        return found

    def _learn(self, job: Job, verdict: Verdict, latency_ms: float) -> None:
        now_ms, limits = monotonic_ms(), self._limits[job.route]
        if verdict.action is not Action.UNREACHED:
            limits.took(latency_ms)
        if not verdict.is_failure:
            limits.concurrency.answered(latency_ms, limits.running)
            limits.breaker.succeeded()
            return
        self._last_why = verdict.why
        limits.concurrency.failed(now_ms)
        if job.attempt > 1 and verdict.is_answered:
            limits.breaker.doubted()
        else:
            limits.breaker.failed(now_ms)


class _Listener(RebalanceListener):
    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder

    async def on_revoked(self, partitions: Partitions) -> None:
        await self._forwarder.hand_back(partitions)

    async def on_lost(self, partitions: Partitions) -> None:
        self._forwarder.forget(partitions)
