"""A whole run from one seed: members, a broker with its disk and network, what goes wrong, what must hold."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from random import Random
from unittest.mock import patch
from uuid import UUID

import structlog

from kohort.broker.coordination import share_state_shards
from kohort.broker.group import GroupState
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.test_world import logged_state
from kohort.broker.metadata import OFFSETS_TOPIC, Mutation, Snapshot, TopicState
from kohort.client.membership import State
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupRequest
from kohort.protocol.messages.sync_group import SyncGroupRequest
from kohort.storage import StorageError, writable_log
from kohort.testing.simulation.disk import VirtualDisk
from tests.left_open import goes_with_the_test
from tests.simulation.administrator import Administrator, Loner
from tests.simulation.books import Books, Violation, replayed_state
from tests.simulation.faults import SESSION_MS, Faults
from tests.simulation.member import SPARE_TOPIC, Member, Plan
from tests.simulation.metadata import NODE_ID, Metadata, places
from tests.simulation.network import Host, Link, Network
from tests.simulation.onlooker import Onlooker
from tests.simulation.ordeal import Ordeal
from tests.simulation.records import Records
from tests.simulation.removals import RETENTION_MINUTES
from tests.simulation.schedule import START_MS, Action, Schedule
from tests.simulation.server import Server
from tests.simulation.sharing.ensemble import SharingEnsemble
from tests.simulation.transactions.ensemble import Ensemble

SHARDS = 4
ELSEWHERE = NODE_ID + 1  # Who leads the topics that are read: this broker keeps groups alone.
SESSIONS_MS = (10_000, 30_000, 45_000)
POLL_INTERVALS_MS = (30_000, 45_000, 90_000)
HEARTBEAT_MS_MAX = 10_000  # A member that hears of a rebalance when its time is over never gets in.
ASSIGNORS = (
    ("range",),
    ("roundrobin",),
    ("sticky", "range"),
    ("cooperative-sticky",),
    ("cooperative-sticky", "range"),
)
JOIN_VERSIONS = (2, 4, 6, 9)
STATIC_JOIN_VERSIONS = (5, 8, 9)
OFFSETS_CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "8192",
    "min.cleanable.dirty.ratio": "0.2",
    "delete.retention.ms": "30000",  # Tombstones go while somebody may still remember what they took.
    "file.delete.delay.ms": "20000",
}
LONERS = 4
COMPACTED = "a log was compacted"
LOOK_INTERVAL_MS = 10_000
QUIET_RESTART_MS = 90_000
LATE_MS_MAX = 2 * SESSION_MS + 5_000
ANSWER_MS_MAX = 8_000
IMPOSSIBLE = "impossible state"
FOREVER_MINUTES = 100_000
RECOVERY_STEP_BYTES = 4 * 1024  # So that starts after a crash begin in the middle of segments.
PRUNED_BYTES_MIN = 8 * 1024  # So that logs of share state begin anew within a run.


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a run is."""

    members: int = 100
    groups: int = 8
    faults_ms: int = 450_000
    has_bad_disk: bool = False
    transactional_ids: int = 0
    share_members: int = 0
    """In all share groups; they read what transactions write."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run that went well amounted to."""

    simulated_ms: int
    entries: int
    settled_ms: int
    injected: dict[str, int]
    checked: dict[str, int]
    trace_digest: str


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.shape = shape
        self.schedule = Schedule()
        self.trace: list[str] = []
        self.books = Books(SHARDS, self.note, self.schedule.now_ms)
        self.network = Network(self.schedule, self.random)
        self.disk = VirtualDisk(self.random.randrange)
        goes_with_the_test(self.disk)
        self.records = Records(self, Random(seed + 1))
        self.transactions: Ensemble | None = None
        if shape.transactional_ids:
            self.transactions = Ensemble(self, Random(seed + 2), shape.transactional_ids)
            self.books.beside.append(self.transactions.ledger)
        self.sharing: SharingEnsemble | None = None
        if shape.share_members:
            assert self.transactions is not None, "share groups read what transactions write"
            ledger = self.transactions.ledger
            self.sharing = SharingEnsemble(self, Random(seed + 3), shape.share_members, ledger)
            self.books.beside.append(self.sharing.ledger)
        self.metadata = Metadata(self._first_snapshot())
        if self.sharing is not None:
            self.sharing.configure(self.metadata)
        self.server: Server | None = None
        self.members: list[Member] = []
        self.compactions = 0
        self._tokens = 0
        self._names = 0
        self._plans = [self._plan(number) for number in range(shape.groups)]
        groups = [plan.group_id for plan in self._plans]
        self._loners = [Loner(self, f"l{number}", f"t{number}", groups) for number in range(LONERS)]
        self.administrator = Administrator(
            self, lambda: self.members, [*groups, *(each.group_id for each in self._loners)]
        )

    def _first_snapshot(self) -> Snapshot:
        topics = [_topic(f"t{number}", number, self.random.choice((3, 6, 12))) for number in range(6)]
        spare = _topic(SPARE_TOPIC, len(topics), 1)
        offsets = TopicState(OFFSETS_TOPIC, UUID(int=99), places(SHARDS), OFFSETS_CONFIG)
        transactions = [] if self.transactions is None else self.transactions.states()
        sharing = [] if self.sharing is None else self.sharing.states()
        put = (*topics, spare, offsets, *self.records.states(), *transactions, *sharing)
        return Snapshot(0, "cluster", NODE_ID).after(Mutation(put=put))

    def _plan(self, number: int) -> Plan:
        choose = self.random.choice
        session_ms = choose(SESSIONS_MS)
        topics = tuple(sorted(self.random.sample([f"t{each}" for each in range(6)], 1 + number % 3)))
        heartbeat_ms = min(session_ms // 3, HEARTBEAT_MS_MAX)
        assignors, interval_ms = choose(ASSIGNORS), choose(POLL_INTERVALS_MS)
        return Plan(f"g{number}", topics, assignors, session_ms, heartbeat_ms, interval_ms)

    # -- a run --------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Let things go wrong, then let everything settle, and look whether it does. Raises: Violation."""
        with self._patched():
            self.start_broker()
            for _ in range(self.shape.members):
                self.begin_member()
            Onlooker(self, self._plans)
            self.records.begin()
            if self.transactions is not None:
                self.transactions.begin()
            if self.sharing is not None:
                self.sharing.begin()
            faults = Faults(self, has_bad_disk=self.shape.has_bad_disk)
            end_ms = START_MS + self.shape.faults_ms
            while self.schedule.time_ms < end_ms:
                self.schedule.run_until(self.schedule.time_ms + LOOK_INTERVAL_MS)
                self._check_answers()
                if self.random.random() < 0.3:
                    self._check_replay(self.random.randrange(SHARDS))
            faults.stop()
            self.records.stop()
            if self.sharing is not None:
                self.sharing.calm()
            for loner in self._loners:
                loner.stop()
            if self.transactions is not None:
                self.transactions.check_going_on()
                self.transactions.stop()
            if self.sharing is not None:
                self.sharing.check_done()
            settled_ms = self._settle()
            self._check_ownership()
            self._check_expired()
            self._check_quiet_restart()
            self._check_answers()
            self._check_last_power_failure()
            if self.transactions is None:
                Ordeal(self, Random(self.seed + 4)).run()
        return Outcome(
            simulated_ms=self.schedule.time_ms - START_MS,
            entries=self.schedule.entries_run,
            settled_ms=settled_ms,
            injected=faults.injected | {"log is compacted": self.compactions},
            checked=dict(self.books.checked),
            trace_digest=sha256("\n".join(self.trace).encode()).hexdigest(),
        )

    @contextmanager
    def _patched(self) -> Iterator[None]:
        """Have the broker's log lines go into the trace, and its limits be small, within the block alone."""
        before = structlog.get_config()
        structlog.configure(
            processors=[self._log_line],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=False,
        )
        collects = gc.isenabled()
        gc.disable()  # A fifth of the time, for cycles that are gone with the world.
        try:
            with (
                patch.object(writable_log, "RECOVERY_STEP_BYTES", RECOVERY_STEP_BYTES),
                patch.object(share_state_shards, "PRUNED_BYTES_MIN", PRUNED_BYTES_MIN),
            ):
                yield
        finally:
            if collects:
                gc.enable()
            structlog.configure(**before)

    def _log_line(
        self, _logger: object, method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.ProcessorReturnValue:
        if IMPOSSIBLE in str(event["event"]):
            raise Violation(f"the core does not meet an {IMPOSSIBLE}: {event}")
        self.compactions += event["event"] == COMPACTED
        fields = " ".join(
            f"{name}={value}" for name, value in event.items() if name not in ("event", "exc_info")
        )
        self.note(f"broker {method}: {event['event']} {fields}")
        raise structlog.DropEvent

    def note(self, text: str) -> None:
        """Write a line into the trace."""
        self.trace.append(f"{self.schedule.time_ms - START_MS} {text}")

    # -- members ------------------------------------------------------------------------------------------

    def begin_member(self, plan_of: Member | None = None, instance: str | None = None) -> Member:
        """Start a consumer process, of a group as chance has it, or in place of another."""
        self._names += 1
        plan = self._plans[self._names % len(self._plans)] if plan_of is None else plan_of.plan
        if plan_of is None and self.random.random() < 0.2:
            instance = f"i{self._names}"
        versions = JOIN_VERSIONS if instance is None else STATIC_JOIN_VERSIONS
        member = Member(self, f"m{self._names}", plan, instance, self.random.choice(versions))
        self.members.append(member)
        return member

    def connect(self, host: Host, client_id: str, on_closed: Action) -> Link | None:
        """Return a connection to the broker, None where there is none to be had."""
        server = self.server
        if server is None or not server.serving or host.cut_until_ms > self.schedule.time_ms:
            return None
        return Link(self.network, server, host, client_id, on_closed)

    def partition_counts(self) -> dict[str, int]:
        """Return how many partitions each topic has."""
        return {name: len(topic.partitions) for name, topic in self.metadata.snapshot().topics.items()}

    def next_token(self) -> str:
        """Return a text that no other commit has in its metadata."""
        self._tokens += 1
        return f"#{self._tokens}"

    def grow_topic(self) -> None:
        """Give a topic more partitions; clients hear of it when they next refresh their metadata."""
        topic = self.metadata.snapshot().topics[f"t{self.random.randrange(6)}"]
        if len(topic.partitions) < 24:
            grown = _topic(topic.name, int(topic.name[1:]), len(topic.partitions) + 2)
            self.metadata.apply(Mutation(put=(grown,)))
        for member in self.members:
            member._later(int(self.random.random() * 30_000), member.refresh)

    # -- the broker ---------------------------------------------------------------------------------------

    def start_broker(self) -> None:
        """Start the broker; where the disk does not let it, try again, as a supervisor would."""
        try:
            server = Server(
                schedule=self.schedule,
                random=self.random,
                disk=self.disk,
                metadata=self.metadata,
                witness=self.books,
                retention_minutes=RETENTION_MINUTES if self.transactions is None else FOREVER_MINUTES,
            )
        except StorageError as error:
            self.note(f"the broker cannot start: {error}")
            self.metadata.forget_watchers()
            self.schedule.after(1_000, self.start_broker)
            return
        self.server = server
        server.meanwhile = self.records.hurry
        self.note("the broker starts")

    def kill_broker(self, operations: int | None = None) -> None:
        """Let the broker's process die behind that operation of its disk."""
        self.note("the broker is killed")
        server = self._end_server()
        self.disk.lose_process(self.disk.operations if operations is None else operations)
        for link in list(server.links):
            link.close()
        self._start_later()

    def cut_power(self, operations: int | None = None) -> None:
        """Let the machine die: connections just fall silent, and what was not synced is at risk."""
        self.note("power fails")
        server = self._end_server()
        self.disk.lose_power(self.disk.operations if operations is None else operations)
        for link in list(server.links):
            if self.random.random() < 0.5:
                link.die()
            else:
                link.close()
        self._start_later()

    def restart_broker(self) -> None:
        """Stop the broker as SIGTERM does, and start it again."""
        self._stop_broker()
        self.disk.lose_process(self.disk.operations)
        self._start_later()

    def cut_power_while_stopping(self) -> None:
        """Stop the broker, and let the machine die behind some operation of the stop."""
        before = self.disk.operations
        self._stop_broker()
        self.note("power fails meanwhile")
        self.disk.lose_power(self.random.randint(before, self.disk.operations))
        self._start_later()

    def _stop_broker(self) -> None:
        self.note("the broker is stopped")
        server = self.server
        assert server is not None
        try:
            server.stop()
        except StorageError as error:
            self.note(f"the broker did not stop cleanly: {error}")
        self.server = None

    def _end_server(self) -> Server:
        server = self.server
        assert server is not None
        server.die()
        self.server = None
        return server

    def _start_later(self) -> None:
        self.schedule.after(100 + self.random.randrange(3_000), self.start_broker)

    # -- what must hold -------------------------------------------------------------------------------------

    def _check_replay(self, *indexes: int) -> None:
        """Replaying these shards' logs gives the live state, unless something is on its way to the log."""
        for shard in [] if self.server is None else self.server.shards():
            if shard.index not in indexes:
                continue
            if shard._staged or shard._pending or shard._flushing or shard._partition is None:
                continue
            rule = "replaying the log gives the live state"
            live, replayed = logged_state(shard.core), replayed_state(shard)
            self.books.expect(rule, replayed == live, lambda shard=shard: f"shard {shard.index}")  # type: ignore[misc]  # a bound default
            self.books.check_offsets(shard.index, shard.core.groups)

    def _settle(self) -> int:
        """Return how long it took until every group was stable. Raises: Violation if one never is."""
        for member in self.members:
            member.calm()
        self.schedule.run_until(self.schedule.time_ms + LATE_MS_MAX)  # What was held up arrives.
        began_ms = self.schedule.time_ms
        deadlines = {plan.group_id: began_ms + _patience_ms(plan) for plan in self._plans}
        while True:
            self.schedule.run_until(self.schedule.time_ms + LOOK_INTERVAL_MS)
            self._replace_fenced()
            unsettled = [plan.group_id for plan in self._plans if not self._is_settled(plan)]
            for group_id in unsettled:
                rule = "once faults stop, every group is stable within its timeouts"
                late = self.schedule.time_ms > deadlines[group_id]
                self.books.expect(rule, not late, partial(self._explain, group_id))
            if not unsettled:
                return self.schedule.time_ms - began_ms

    def _replace_fenced(self) -> None:
        """Check that only fencing has ended a member for good; a supervisor begins another process."""
        for member in [each for each in self.members if each.membership.state is State.FAILED]:
            error = member.membership.error
            rule = "members fail for good only when fenced"
            fenced = error is not None and error.code is ErrorCode.FENCED_INSTANCE_ID
            self.books.expect(rule, fenced, lambda error=error: f"{error!r}")  # type: ignore[misc]  # a bound default
            member.kill()
            self.members.remove(member)
            self.begin_member()

    def _members_of(self, plan: Plan) -> list[Member]:
        return [each for each in self.members if each.plan is plan]

    def _group(self, group_id: str) -> AnyGroup | None:
        return None if self.server is None else self.server.group_shards.group(group_id)

    def _is_settled(self, plan: Plan) -> bool:
        group, members = self._group(plan.group_id), self._members_of(plan)
        if not members:
            return True
        return (
            group is not None
            and group.state is GroupState.STABLE
            and {each.membership.member_id for each in members} == group.members.keys()
            and all(
                each.membership.state is State.STABLE
                and each.membership.generation_id == group.generation_id
                and not each.membership.has_handover
                for each in members
            )
        )

    def _explain(self, group_id: str) -> str:
        members = [
            (each.name, each.membership.state.name, each.membership.member_id, each.membership.generation_id)
            for each in self.members
            if each.plan.group_id == group_id
        ]
        group = self._group(group_id)
        return f"{group!r} {sorted(group.members) if group else None}\n{members}"

    def _check_ownership(self) -> None:
        """Every partition that somebody in a group subscribes to has exactly one owner there."""
        counts = self.partition_counts()
        for plan in self._plans:
            members = self._members_of(plan)
            wanted = {
                (topic, index)
                for each in members
                for topic in each.membership._topics
                for index in range(counts[topic])
            }
            owned = [(t, index) for each in members for t, indexes in each.owned.items() for index in indexes]
            rule, holds = "every partition has one owner", sorted(owned) == sorted(wanted)
            if not holds and not any(each.membership.is_leader for each in members):
                # A static leader that came back is only told so from JoinGroup 9 on (KIP-814): before that
                # nobody looks for new partitions.
                rule = "no partition has two owners where nobody knows that it leads"
                holds = len(owned) == len(set(owned)) and set(owned) <= wanted
            self.books.expect(
                rule,
                holds,
                lambda plan=plan, owned=owned, wanted=wanted: (  # type: ignore[misc]  # bound defaults
                    f"{plan.group_id}: owned {sorted(owned)}, wanted {sorted(wanted)}"
                ),
            )

    def _check_quiet_restart(self) -> None:
        """Stop and start the broker: members go on with their generation, and their commits count."""
        before = {plan.group_id: self._generation(plan) for plan in self._plans}
        self.restart_broker()
        committed = {member: member.committed for member in self.members}
        self.schedule.run_until(self.schedule.time_ms + QUIET_RESTART_MS)
        for plan in self._plans:
            rule = "a restart starts no rebalance"
            after = self._generation(plan)
            first = before[plan.group_id]
            self.books.expect(rule, after == first, partial(self._explain, plan.group_id))
        for member in self.members:
            rule = "whoever owns partitions can commit"
            idle = not member.owned
            self.books.expect(rule, idle or member.committed > committed[member], partial(str, member.name))

    def _check_expired(self) -> None:
        """Nobody has committed for longer than the retention lasts: groups without members are gone."""
        if self.transactions is not None:
            return  # Whose groups have none either, and are to stay.
        rule = "what nobody uses expires in the end"
        for loner in self._loners:
            group = self._group(loner.group_id)
            self.books.expect(rule, group is None, lambda group=group: f"{group!r}")  # type: ignore[misc]  # a bound default

    def _generation(self, plan: Plan) -> int | None:
        group = self._group(plan.group_id)
        return None if group is None else group.generation_id

    def _check_answers(self) -> None:
        """Nobody waits for an answer that never comes; joins and syncs may wait for others."""
        for link in [] if self.server is None else self.server.links:
            for sent in link.pending:
                if sent.reply is not None or isinstance(sent.message, JoinGroupRequest | SyncGroupRequest):
                    continue
                rule = "every request is answered in the end"
                waited_ms = self.schedule.time_ms - sent.arrived_ms
                self.books.expect(rule, waited_ms < ANSWER_MS_MAX, lambda sent=sent: f"{sent.message}")  # type: ignore[misc]  # a bound default

    def _check_last_power_failure(self) -> None:
        """Let power fail once more: what was acknowledged is found, by the books' check of each load."""
        self._check_replay(*range(SHARDS))
        self.cut_power()
        self.schedule.run_until(self.schedule.time_ms + 5_000)
        assert self.server is not None
        loaded = [shard.index for shard in self.server.shards()]
        self.books.expect("every shard serves again", len(loaded) == SHARDS, lambda: f"{loaded}")
        self.records.check_all()
        if self.transactions is not None:
            self.transactions.check_all()


def _topic(name: str, number: int, partitions: int) -> TopicState:
    return TopicState(name, UUID(int=number + 1), places(partitions, ELSEWHERE))


def _patience_ms(plan: Plan) -> int:
    """Return how long a group may take: a dead member's session, a join that was lost, two rebalances."""
    return plan.session_timeout_ms + 3 * plan.max_poll_interval_ms + 60_000
