"""One broker's process: the real replication and controller code, with a model of everything around it.

What is here is what a shell has to do: carry states from etcd to the cores, fetches between brokers,
records to the disk, and answers to clients. Decisions are the cores' alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.broker.controller import balanced, decide, is_drained, min_in_sync
from kohort.broker.controller.election import led_anew
from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState
from kohort.broker.replication import (
    Acknowledgement,
    Diverging,
    FetchFrom,
    Following,
    Leadership,
    ReplicaFetch,
    Restart,
    Served,
    Truncate,
    check_follower_read,
)
from kohort.protocol.errors import ErrorCode
from tests.simulation.cluster.disk import MemoryLog, Record
from tests.simulation.cluster.etcd import Events, Key, Loaded, Outcome, Transaction
from tests.simulation.cluster.metadata import ModelInSyncReplicas, ModelStore, start
from tests.simulation.cluster.session import (
    CONTROLLER,
    Session,
    broker_key,
    name_of,
    partition_key,
)

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

FETCH_MS = 60
FETCH_TIMEOUT_MS = 1_000
FETCH_RECORDS_MAX = 40
PROPOSE_MS = 400
CONTROL_MS = 150
BALANCE_MS = 20_000
CHECKPOINT_MS = 5_000


class Waiting(NamedTuple):
    """A produce request with acks=all: its records end there."""

    end_offset: int
    value: int
    reply: Callable[[Any], None]


class Progress(NamedTuple):
    """What a follower's fetches have shown its leader, by the words of `replica.lag.time.max.ms`."""

    offset: int
    leader_end_offset: int
    at_ms: int
    caught_up_ms: int
    """When it last had all that the leader had had at the fetch before."""


@dataclass(slots=True)
class Role:
    """What the broker is to one partition under one leader epoch."""

    core: Leadership | Following
    since_ms: int
    waiting: list[Waiting] = field(default_factory=list)
    shown: int = 0
    progress: dict[int, Progress] = field(default_factory=dict)

    def fetched(self, node_id: int, offset: int, end_offset: int, now_ms: int) -> None:
        """Note how far a follower is."""
        before = self.progress.get(node_id) or Progress(-1, 2**62, self.since_ms, self.since_ms)
        caught_up_ms = before.caught_up_ms
        if offset >= end_offset:
            caught_up_ms = now_ms
        elif offset >= before.leader_end_offset:
            caught_up_ms = before.at_ms
        self.progress[node_id] = Progress(offset, end_offset, now_ms, max(caught_up_ms, before.caught_up_ms))

    def lagging(self, end_offset: int, now_ms: int, lag_ms_max: int) -> list[int]:
        """Return who is in sync and has lacked something for too long."""
        found = []
        for node_id in self.core.state.isr:
            seen = self.progress.get(node_id)
            caught_up_ms = self.since_ms if seen is None else seen.caught_up_ms
            lacks_some = seen is None or seen.offset < end_offset
            if node_id != self.core.state.leader and lacks_some and now_ms - caught_up_ms > lag_ms_max:
                found.append(node_id)
        return found

    @property
    def leader_epoch(self) -> int:
        return self.core.state.leader_epoch


class Fetched(NamedTuple):
    """A leader's answer for one partition."""

    answer: Served | Diverging | ErrorCode
    records: tuple[Record, ...]
    log_start_offset: int
    log_end_offset: int


class Broker(Session):
    """A process, from its start to its death."""

    def __init__(self, world: "World", node_id: int, clock_rate: float) -> None:
        world.disks[node_id].begin(world.new_directory_id())
        super().__init__(
            node_id,
            schedule=world.schedule,
            links=world.links,
            etcd=world.etcd,
            disk=world.disks[node_id],
            clock_rate=clock_rate,
            random=world.random,
        )
        self.world = world
        self.roles: dict[int, Role] = {}
        self._fetching: dict[int, int] = {}  # By leader, which fetch is under way.
        self._fetch_number = 0
        self._deciding: set[int] = set()
        self._balanced_ms = 0
        self.store = ModelStore(self, len(world.indexes), world.new_change_id)
        self._in_sync = ModelInSyncReplicas(self.store)
        self.after(self.disk.sync_ms, self.register)
        for interval_ms, work in (
            (FETCH_MS, self._fetch_all),
            (PROPOSE_MS, self._propose_all),
            (CONTROL_MS, self._control),
            (CHECKPOINT_MS, self._checkpoint),
        ):
            self._regularly(interval_ms, work)

    def _regularly(self, interval_ms: int, work: Callable[[], None]) -> None:
        def turn() -> None:
            work()
            self.after(interval_ms, turn)

        self.after(self._random.randrange(interval_ms), turn)

    @property
    def identity(self) -> tuple[int, int]:
        """Node id, and which life."""
        return self.node_id, self.life

    @property
    def may_act(self) -> bool:
        """Whether anybody may be answered."""
        return self.authority.may_act(self.now_ms())

    # -- what the metadata says -------------------------------------------------------------------------

    def changed(self, key: Key) -> None:
        """Become what a partition's new state makes of this broker."""
        if key[0] == "partition":
            self._apply(key[1])
        elif key[0] == "broker":
            live = self.live_brokers()
            for role in self.roles.values():
                if isinstance(role.core, Leadership):
                    role.core.brokers_changed(live)
        elif key[0] == "rules":
            role_now = self.roles.get(key[1])
            if role_now is not None and isinstance(role_now.core, Leadership):
                role_now.core.min_insync_replicas = self.rules(role_now.core.state.index).min_insync_replicas

    def watched(self, answer: Events) -> None:
        """Let the store know what the watch has told."""
        self.store.watched(answer.revision, answer.events)

    def reloaded(self, loaded: Loaded) -> None:
        """Let the store know all that there is."""
        self.store.reloaded(loaded)

    def began(self) -> None:
        """Be what the metadata says, in a new life."""
        self.store.registered(self.node_id, self.authority.broker_epoch, self.lease)
        for key in list(self.view):
            if key[0] == "partition":
                self.changed(key)

    def unregistered(self) -> None:
        """Be nothing to anybody any more."""
        for index in list(self.roles):
            self._end(index)

    def _apply(self, index: int) -> None:
        state = self.state(index)
        role = self.roles.get(index)
        if state is None:
            return
        if self.node_id not in state.replicas:
            self._end(index)
            self.disk.logs.pop(index, None)
            self.disk.high_watermarks.pop(index, None)
        elif role is not None and role.leader_epoch == state.leader_epoch:
            if isinstance(role.core, Leadership):
                role.core.follow(state, self.now_ms())
                self._moved(index, role)
            else:
                role.core.follow(state)
        else:
            self._end(index)
            self._begin(index, state)

    def _begin(self, index: int, state: PartitionState) -> None:
        if not self.authority.has_its_folder(state) or state.leader == NO_LEADER:
            return
        log = self.disk.logs.setdefault(index, MemoryLog())
        known = min(self.disk.high_watermarks.get(index, 0), log.log_end_offset)
        if state.leader != self.node_id:
            role = Role(Following(state, log, high_watermark=known), self.now_ms())
        elif self.authority.may_lead(partition_key(index), state, self.now_ms()):
            log.assign_epoch(state.leader_epoch)
            role = Role(self._leadership(index, state, log, known), self.now_ms())
        else:
            return
        self.roles[index] = role
        self.sync(index)
        self._moved(index, role)

    def _leadership(self, index: int, state: PartitionState, log: MemoryLog, known: int) -> Leadership:
        core = Leadership(
            self.node_id,
            state,
            log,
            high_watermark=known,
            min_insync_replicas=self.rules(index).min_insync_replicas,
            lag_ms_max=self.world.lag_ms,
            now_ms=self.now_ms(),
        )
        core.brokers_changed(self.live_brokers())
        return core

    def _end(self, index: int) -> None:
        role = self.roles.pop(index, None)
        if role is None:
            return
        self.disk.high_watermarks[index] = role.core.high_watermark
        for waiting in role.waiting:
            waiting.reply(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _checkpoint(self) -> None:
        for index, role in self.roles.items():
            self.disk.high_watermarks[index] = role.core.high_watermark

    # -- the disk ---------------------------------------------------------------------------------------

    def sync(self, index: int) -> None:
        """Have all that is appended synced, one sync after another."""
        log = self.disk.logs.get(index)
        if log is None or log.is_syncing or log.flushed_offset == log.log_end_offset:
            return
        log.is_syncing = True
        end_offset = log.log_end_offset

        def done() -> None:
            log.is_syncing = False
            log.flushed_offset = end_offset
            role = self.roles.get(index)
            if role is not None and self.disk.logs.get(index) is log:
                if isinstance(role.core, Leadership):
                    role.core.synced(self.now_ms())
                else:
                    role.core.synced()
                self._moved(index, role)
            self.sync(index)

        self.after(1 + self._random.randrange(self.disk.sync_ms), done)

    def _moved(self, index: int, role: Role) -> None:
        """Show the books what is committed now, and answer who waits for it."""
        core, log = role.core, self.disk.logs[index]
        if core.high_watermark > role.shown:
            self.world.books.shows(
                index,
                role.leader_epoch,
                log,
                role.shown,
                core.high_watermark,
                is_leader=isinstance(core, Leadership),
            )
            role.shown = core.high_watermark
        if isinstance(core, Leadership):
            still = []
            for waiting in role.waiting:
                found = core.acknowledgement(waiting.end_offset)
                if found is Acknowledgement.WAITING:
                    still.append(waiting)
                elif self.may_act:
                    self._acknowledge(index, role, waiting, found)
            role.waiting = still

    def _acknowledge(self, index: int, role: Role, waiting: Waiting, found: Acknowledgement) -> None:
        core = role.core
        assert isinstance(core, Leadership)
        self.world.answered(self)
        if found is Acknowledgement.COMMITTED:
            offset = waiting.end_offset - 1
            required = min_in_sync(core.state, core.min_insync_replicas)
            missing = required - self.world.copies(index, offset, core.log.records[offset])  # type: ignore[attr-defined]  # a MemoryLog
            self.world.books.acknowledged(index, role.leader_epoch, offset, waiting.value, missing)
            waiting.reply(offset)
        else:
            waiting.reply(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    # -- followers --------------------------------------------------------------------------------------

    def _fetch_all(self) -> None:
        """Ask every leader for all that is followed there, where no fetch is under way."""
        by_leader: dict[int, dict[int, FetchFrom]] = {}
        for index, role in self.roles.items():
            core = role.core
            if isinstance(core, Following) and core.state.leader not in self._fetching:
                at = core.next_fetch()
                if at is not None:
                    by_leader.setdefault(core.state.leader, {})[index] = at
        if self.authority.broker_epoch >= 0:
            for leader, wanted in by_leader.items():
                self._fetch(leader, wanted)

    def _fetch(self, leader: int, wanted: dict[int, FetchFrom]) -> None:
        self._fetch_number += 1
        number = self._fetching[leader] = self._fetch_number
        broker_epoch = self.authority.broker_epoch
        roles = {index: self.roles[index] for index in wanted}

        def heard(found: dict[int, Fetched] | None) -> None:
            if self._fetching.get(leader) == number:
                del self._fetching[leader]
            for index, each in (found or {}).items():
                if self.roles.get(index) is roles[index]:
                    self._take(index, wanted[index], each)
            if found:
                self._fetch_all()

        asked = {index: ReplicaFetch(self.node_id, broker_epoch, at) for index, at in wanted.items()}
        self.call(
            name_of(leader),
            lambda reply: self.world.deliver(leader, lambda broker: broker.serve_fetch(asked, reply)),
            heard,
            FETCH_TIMEOUT_MS,
        )

    def serve_fetch(self, asked: dict[int, ReplicaFetch], reply: Callable[[Any], None]) -> None:
        """Answer a follower, after a while where there is nothing new."""
        if not self.may_act:
            return
        found: dict[int, Fetched] = {}
        has_news = False
        for index, fetch in asked.items():
            role = self.roles.get(index)
            log = self.disk.logs.get(index)
            if role is None or log is None or not isinstance(role.core, Leadership):
                found[index] = Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER, (), 0, 0)
                continue
            self.world.books.leads(index, role.leader_epoch, self.identity)
            before = role.core.high_watermark
            answer = role.core.handle_fetch(fetch, self.now_ms())
            offset = fetch.at.offset
            if isinstance(answer, Served):
                role.fetched(fetch.node_id, offset, log.log_end_offset, self.now_ms())
            records = log.records[offset : offset + FETCH_RECORDS_MAX] if isinstance(answer, Served) else ()
            found[index] = Fetched(answer, tuple(records), log.log_start_offset, log.log_end_offset)
            has_news = has_news or bool(records) or role.core.high_watermark != before
            self._moved(index, role)
            if fetch.node_id not in role.core.state.isr:  # It may be in sync by now.
                self.after(1, partial(self._propose, index, role))
        if has_news:
            reply(found)
        else:
            self.after(FETCH_MS, lambda: reply(found))

    def _take(self, index: int, at: FetchFrom, found: Fetched) -> None:
        """Do what a leader's answer asks for."""
        role, log = self.roles[index], self.disk.logs[index]
        core = role.core
        assert isinstance(core, Following)
        answer = found.answer
        if at.offset != log.log_end_offset or at.leader_epoch != role.leader_epoch:
            return  # It answers a fetch that timed out: another has come since.
        if isinstance(answer, Served):
            core.answered(answer.high_watermark, answer.log_start_offset)
            for record in found.records:
                log.append(record)
            self.sync(index)
            if not found.records:
                core.synced()
                self._moved(index, role)
        elif isinstance(answer, Diverging):
            self._cut(index, role, core.diverged(answer))
        elif answer is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._cut(index, role, core.out_of_range(found.log_start_offset, found.log_end_offset))

    def _cut(self, index: int, role: Role, cut: Truncate | Restart | None) -> None:
        core = role.core
        assert isinstance(core, Following)
        if cut is not None:
            assert not self.disk.logs[index].is_syncing
            self.world.books.cut(index, role.leader_epoch, cut.offset, core.high_watermark)
            self.disk.logs[index].truncate(cut.offset)
            core.truncated()
            role.shown = min(role.shown, core.high_watermark)

    # -- the in-sync replicas ---------------------------------------------------------------------------

    def _propose_all(self) -> None:
        """Ask for the ISR that is right, and for a new leader epoch where an earlier life has led."""
        if not self.may_act:
            return
        for index, role in list(self.roles.items()):
            self._propose(index, role)
        for key, entry in list(self.view.items()):
            if key[0] != "partition":
                continue
            state = entry.value
            if key[1] not in self.roles:
                self.changed(key)  # It may have come while this broker was not to act.
            if self.authority.is_inherited(key, state):
                self.ask(
                    Transaction(
                        created={broker_key(self.node_id): self.authority.broker_epoch},
                        modified={key: entry.mod_revision},
                        puts={key: led_anew(state)},
                    ),
                    self._learn,
                )

    def _propose(self, index: int, role: Role) -> None:
        core = role.core
        if self.may_act and self.roles.get(index) is role and isinstance(core, Leadership):
            proposal = core.propose(self.now_ms())
            if proposal is not None and proposal.joining:
                self.world.on_joining(self, min(proposal.joining))
            lagging = role.lagging(core.log.log_end_offset, self.now_ms(), self.world.lag_ms)
            self.world.books.expect(
                "who lags is asked to leave the ISR",
                core.proposal is not None or not lagging,
                lambda: f"partition {index}: {lagging} of {core.state}",
            )
            if core.proposal is not None:  # A new one, or one of which nothing was heard.
                start(self, self._in_sync.ask_for(index, core, core.proposal))

    def _learn(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.learn(outcome)

    # -- the controller ---------------------------------------------------------------------------------

    @property
    def is_controller(self) -> bool:
        """Whether this life has the controller's key, as far as it knows."""
        known = self.view.get(CONTROLLER)
        return known is not None and known.value == self.identity

    def _control(self) -> None:
        """Settle what is not settled, where this broker is the controller; else try to become it."""
        if not self.may_act:
            return
        known = self.view.get(CONTROLLER)
        if known is None:
            put = Transaction(created={CONTROLLER: 0}, puts={CONTROLLER: self.identity}, lease=self.lease)
            self.ask(put, self._learn)
        if known is None or known.value != self.identity:
            return
        live = self.live_brokers()
        states = {
            key[1]: entry.value
            for key, entry in self.view.items()
            if key[0] == "partition" and key[1] not in self._deciding
        }
        keyed = [((self.world.topic_ids[index], index), state) for index, state in states.items()]
        indexes = {topic_id: index for index, topic_id in self.world.topic_ids.items()}
        for change in decide(keyed, live, lambda topic_id: self.rules(indexes[topic_id])):
            self._decide(change.key[1], change.after)
        if self.now_ms() - self._balanced_ms > BALANCE_MS:
            self._balanced_ms = self.now_ms()
            for before, after in balanced(states.values(), live, 10):
                if before.index not in self._deciding:
                    self._decide(before.index, after)

    def _decide(self, index: int, after: PartitionState) -> None:
        key = partition_key(index)
        self._deciding.add(index)
        asked = Transaction(
            created={CONTROLLER: self.view[CONTROLLER].create_revision},
            modified={key: self.view[key].mod_revision},
            puts={key: after},
        )

        def heard(outcome: Outcome | None) -> None:
            self._deciding.discard(index)
            self._learn(outcome)

        self.ask(asked, heard)

    @property
    def has_drained(self) -> bool:
        """Whether this broker may go, having asked for it."""
        states = [entry.value for key, entry in self.view.items() if key[0] == "partition"]
        return is_drained(self.node_id, states, self.live_brokers())

    # -- clients ----------------------------------------------------------------------------------------

    def produce(self, index: int, value: int, reply: Callable[[Any], None]) -> None:
        """Append a record, with acks=all."""
        if not self.may_act:
            return
        role = self.roles.get(index)
        self.world.answered(self)
        if role is None or not isinstance(role.core, Leadership):
            reply(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        self.world.books.leads(index, role.leader_epoch, self.identity)
        refused = role.core.check_enough_replicas()
        if refused is not None:
            reply(refused)
            return
        log = self.disk.logs[index]
        log.append(Record(role.leader_epoch, value))
        role.waiting.append(Waiting(log.log_end_offset, value, reply))
        self.sync(index)

    def latest_offset(self, index: int, leader_epoch: int, reply: Callable[[Any], None]) -> None:
        """Answer where consumers find the end: (leader epoch, offset)."""
        role = self.roles.get(index)
        if not self.may_act:
            return
        if role is None or not isinstance(role.core, Leadership) or role.leader_epoch < leader_epoch:
            reply(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        self.world.answered(self)
        self.world.books.leads(index, role.leader_epoch, self.identity)
        found = role.core.latest_offset
        reply(ErrorCode.OFFSET_NOT_AVAILABLE if found is None else (role.leader_epoch, found))

    def read(self, index: int, leader_epoch: int, offset: int, reply: Callable[[Any], None]) -> None:
        """Answer a consumer, as leader or as follower: (leader epoch, high watermark, records)."""
        role = self.roles.get(index)
        if not self.may_act:
            return
        if role is None or role.leader_epoch < leader_epoch:
            reply(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        self.world.answered(self)
        core = role.core
        refused = (
            core.check_read(offset) if isinstance(core, Leadership) else check_follower_read(core, offset)
        )
        if refused is not None:
            reply(refused)
            return
        end_offset = min(core.high_watermark, offset + FETCH_RECORDS_MAX)
        records = tuple(self.disk.logs[index].records[offset:end_offset])
        is_leader = isinstance(core, Leadership)
        reply((role.leader_epoch, core.high_watermark, records, is_leader))

    def knows(self, index: int, reply: Callable[[Any], None]) -> None:
        """Answer a metadata request: the state as it is known here."""
        if self.may_act:
            reply(self.state(index))
