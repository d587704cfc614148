"""A whole cluster from one seed: brokers, etcd, clients, what goes wrong, what must hold."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from random import Random
from uuid import UUID

from msgspec.structs import replace

from kohort.broker.controller import LiveBroker, TopicRules, UsableBroker, min_in_sync, place
from kohort.broker.controller.election import with_epochs
from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState
from kohort.broker.replication import Found, has_all
from tests.simulation.cluster.books import Books
from tests.simulation.cluster.broker import Broker
from tests.simulation.cluster.clients import Consumer, Producer
from tests.simulation.cluster.disk import Disk, Record
from tests.simulation.cluster.etcd import Entry, Etcd, Event, Transaction
from tests.simulation.cluster.faults import Faults
from tests.simulation.cluster.links import Links
from tests.simulation.cluster.session import TTL_MS, Session, broker_key, partition_key, rules_key
from tests.simulation.log_lines import log_lines
from tests.simulation.schedule import START_MS, Schedule

SETTLE_MS = 120_000
LOOK_MS = 1_000
LAGS_MS = (6_000, 20_000)
"""How long followers may lag: shorter than a lease, or, as with the settings' defaults, longer."""
DRAIN_MS_MAX = 15_000
FAIL_OVER_MS = 10_000
TOPICS = (
    (3, TopicRules(min_insync_replicas=2)),
    (3, TopicRules(min_insync_replicas=2)),
    (3, TopicRules(min_insync_replicas=1)),
    (2, TopicRules(min_insync_replicas=1)),
    (2, TopicRules(min_insync_replicas=2)),
    (3, TopicRules(min_insync_replicas=1, unclean_leader_election=True)),
)
"""Replication factor and rules of each partition's topic."""
SEEDS_PER_CHANGE_OF_MIND, FIRST_CHANGE_OF_MIND = 8, 5


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a run is."""

    brokers: int = 5
    faults_ms: int = 90_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run that went well amounted to."""

    simulated_ms: int
    entries: int
    settled_ms: int
    injected: dict[str, int]
    checked: dict[str, int]
    seen: dict[str, int]
    trace_digest: str


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.random = Random(seed)
        self.shape = shape
        self.schedule = Schedule()
        self.trace: list[str] = []
        self.books = Books(self.note)
        self.links = Links(self.schedule, self.random)
        self.etcd = Etcd(self.schedule)
        self.etcd.on_event = self._changed
        self.lag_ms = self.random.choice(LAGS_MS)
        self.node_ids = list(range(1, shape.brokers + 1))
        self.disks = {each: self._new_disk() for each in self.node_ids}
        self.changes_minds = seed % SEEDS_PER_CHANGE_OF_MIND == FIRST_CHANGE_OF_MIND
        """Whether moves are taken back while one who was added leads, which is rare by chance."""
        self.on_joining: Callable[[Broker, int], None] = lambda leader, node_id: None
        """Called where a leader is about to ask for a follower in the ISR."""
        self.indexes = list(range(len(TOPICS)))
        self.topic_ids = {index: UUID(int=1_000 + index) for index in self.indexes}
        self.brokers: dict[int, Broker] = {}
        self._values = 0
        self._change_ids = 0
        self._emptied_ms = -60_000
        self._emptied: set[int] = set()
        self._lost_disk = self._new_disk()
        self._rates = {each: 0.95 + self.random.random() / 10 for each in self.node_ids}
        Session.lives = 0

    def _new_disk(self) -> Disk:
        return Disk(self.new_directory_id())

    def run(self) -> Outcome:
        """Let things go wrong, then let everything settle, and look whether it does. Raises: Violation."""
        with log_lines(self.note):
            return self._run_all()

    def _run_all(self) -> Outcome:
        self._create_topics()
        for node_id in self.node_ids:
            self._start(node_id)
        producers = [Producer(self, index) for index in self.indexes]
        for index in self.indexes:
            Consumer(self, index)
        faults = Faults(self)
        self.schedule.run_until(START_MS + self.shape.faults_ms)
        faults.stop()
        self._heal()
        settled_ms = self._settle(producers)
        return Outcome(
            self.schedule.time_ms - START_MS,
            self.schedule.entries_run,
            settled_ms,
            dict(faults.injected),
            dict(self.books.checked),
            dict(self.books.seen),
            sha256("\n".join(self.trace).encode()).hexdigest(),
        )

    def note(self, text: str) -> None:
        """Write a line into the trace."""
        self.trace.append(f"{self.schedule.time_ms - START_MS} {text}")

    def next_value(self) -> int:
        """Return what no other record holds."""
        self._values += 1
        return self._values

    def _create_topics(self) -> None:
        usable = [UsableBroker(each, f"rack-{each % 3}") for each in self.node_ids]
        for index, (factor, rules) in enumerate(TOPICS):
            replicas = place(usable, 1, factor, self.random.randrange)[0]
            directories = tuple(self.disks[each].directory_id for each in replicas)
            state = PartitionState(index, NO_LEADER, 0, replicas, replicas, directories=directories)
            self.etcd.transact(Transaction(puts={rules_key(index): rules, partition_key(index): state}))
            if rules.unclean_leader_election:
                self.books.may_be_unclean.add(index)

    # -- brokers ------------------------------------------------------------------------------------------

    def _start(self, node_id: int) -> None:
        broker = self.brokers.get(node_id)
        if broker is None or not broker.alive:
            self.note(f"broker {node_id} starts")
            self.brokers[node_id] = Broker(self, node_id, self._rates[node_id])

    def start_later(self, node_id: int, delay_ms: int) -> None:
        """Start a broker that died."""
        self.schedule.after(delay_ms, partial(self._start, node_id))

    def crash(self, node_id: int, *, lost_power: bool) -> None:
        """End a broker's process, or the machine that it runs on."""
        self.note(f"broker {node_id} {'loses power' if lost_power else 'is killed'}")
        self.brokers[node_id].alive = False
        self.disks[node_id].crash(lost_power, self.random)

    def replace_disk(self, node_id: int) -> None:
        """Give a machine that is off an empty disk."""
        self.note(f"broker {node_id} loses its disk")
        self._emptied_ms = self.schedule.time_ms
        self._emptied.add(node_id)
        self._lost_disk = self.disks[node_id]
        self.disks[node_id] = self._new_disk()

    def lose_tails(self, node_id: int, found: Found) -> None:
        """Take from a machine that is off what its disk had last."""
        self.note(f"broker {node_id} loses the ends of its logs: {found}")
        self._emptied_ms = self.schedule.time_ms
        disk = self.disks[node_id]
        self.books.kept_some.add(node_id)
        self._lost_disk = Disk(disk.directory_id)
        self._lost_disk.logs = dict(disk.logs)
        disk.lose_tails(found, self.random)

    def new_change_id(self) -> UUID:
        """Return an id that no other change of the metadata has."""
        self._change_ids += 1
        return UUID(int=self._change_ids)

    def new_directory_id(self) -> UUID:
        """Return an id that no folder has."""
        return UUID(int=self.random.getrandbits(100) + 1)

    def may_lose(self, node_id: int) -> bool:
        """Return whether others have all that was acknowledged, and no other disk was lost just now."""
        if self.schedule.time_ms - self._emptied_ms < 30_000:
            return False
        for index in self.indexes:
            state: PartitionState = self.etcd.entries[partition_key(index)].value
            others = {*state.isr, *state.elr} - {node_id}
            if node_id in state.replicas and not others:
                return False
        return True

    def drain(self, node_id: int) -> None:
        """Stop a broker cleanly, and start it again."""
        broker = self.brokers[node_id]
        broker.drain()
        deadline_ms = self.schedule.time_ms + DRAIN_MS_MAX

        def look() -> None:
            if self.schedule.time_ms < deadline_ms and not broker.has_drained:
                broker.after(200, look)
                return
            self.books.seen["drained"] += broker.has_drained
            broker.leave()
            broker.after(20, stop)

        def stop() -> None:
            self.crash(node_id, lost_power=False)
            self.start_later(node_id, 300)

        broker.after(500, look)

    def deliver(self, node_id: int, serve: Callable[[Broker], None]) -> None:
        """Hand a broker what has arrived for it."""
        broker = self.brokers[node_id]
        broker.run(lambda: serve(broker))

    def live_brokers(self) -> dict[int, LiveBroker]:
        """Return who is registered in truth."""
        found = {}
        for node_id in self.node_ids:
            entry = self.etcd.entries.get(broker_key(node_id))
            if entry is not None:
                known = entry.value
                found[node_id] = known.live(node_id, entry.create_revision)
        return found

    # -- what must hold -------------------------------------------------------------------------------------

    def _changed(self, event: Event, before: Entry | None) -> None:
        """See etcd take a change; whoever is in sync by it has all that anybody was ever shown."""
        self.books.changed(event, before)
        if event.key[0] == "partition" and event.entry is not None and before is not None:
            index, state = event.key[1], event.entry.value
            for node_id in set(state.isr) - set(before.value.isr):
                directory, disk = state.directories[state.replicas.index(node_id)], self.disks[node_id]
                if directory == disk.directory_id and has_all(disk.found):  # Else it is about to leave again.
                    self.books.joins(index, node_id, disk.logs.get(index))

    def answered(self, broker: Broker) -> None:
        """See a broker answer a client: it holds its lease, and is registered by it."""
        entry = self.etcd.entries.get(broker_key(broker.node_id))
        holds = entry is not None and entry.value.life == broker.life and self.etcd.holds(broker.lease)
        self.books.answers(broker.identity, holds)

    def copies(self, index: int, offset: int, record: Record) -> int:
        """Return how many disks have the record in truth, or had it when they were lost, just now."""
        count = 0
        for disk in (*self.disks.values(), self._lost_disk):
            log = disk.logs.get(index)
            count += log is not None and log.flushed_offset > offset and log.records[offset] == record
        return count

    def _heal(self) -> None:
        self.note("everything is healed")
        self.links.heal()
        for member in self.etcd.members:
            member.is_up, member.latency_ms, member.watch_lag_ms, member.stands_until_ms = True, 0, 0, 0
        for disk in self.disks.values():
            disk.sync_ms = 2
        for index in self.indexes:
            rules = TOPICS[index][1]
            self.etcd.transact(Transaction(puts={rules_key(index): rules}))

    def _settle(self, producers: list[Producer]) -> int:
        """Return how long it took until all was well. Raises: Violation if it never is."""
        began_ms = self.schedule.time_ms
        self._run(30_000)  # What was held up ends.
        for node_id in self.node_ids:
            self._start(node_id)
        self._run(2_000)
        self._lead_what_is_lost()
        self._become_well(began_ms)
        settled_ms = self.schedule.time_ms - began_ms
        self._take_records("after the faults every partition takes records", producers)
        self._go_on_without_one(producers)
        self._check_logs(producers)
        return settled_ms

    def _become_well(self, began_ms: int) -> None:
        unwell = self._unwell()
        while unwell:
            self.books.expect(
                "after the faults every partition has a leader and a full ISR",
                self.schedule.time_ms - began_ms < SETTLE_MS,
                partial("; ".join, unwell),
            )
            self._run(LOOK_MS)
            unwell = self._unwell()

    def _take_records(self, rule: str, producers: list[Producer]) -> None:
        before = [each.acknowledged for each in producers]
        self._run(10_000)
        self.books.expect(
            rule,
            all(each.acknowledged > count for each, count in zip(producers, before, strict=True)),
            lambda: f"{before} {[each.acknowledged for each in producers]}",
        )

    def _go_on_without_one(self, producers: list[Producer]) -> None:
        """Kill a broker: wherever those who stay are min.insync.replicas, nothing else is waited for."""
        node_id = self.random.choice(self.node_ids)
        self.crash(node_id, lost_power=False)
        self._run(TTL_MS + FAIL_OVER_MS)
        going_on = [each for each in producers if self._are_enough_without(node_id, each.index)]
        self._take_records("one broker's death stops nothing that has enough replicas", going_on)
        self._start(node_id)
        self._become_well(self.schedule.time_ms)

    def _are_enough_without(self, node_id: int, index: int) -> bool:
        state: PartitionState = self.etcd.entries[partition_key(index)].value
        left = set(state.replicas) - {node_id}
        return len(left) >= min_in_sync(state, TOPICS[index][1].min_insync_replicas)

    def _lead_what_is_lost(self) -> None:
        """Elect a leader by hand where the last replica that had everything lost its disk."""
        for index in self.indexes:
            key = partition_key(index)
            entry = self.etcd.entries[key]
            state: PartitionState = entry.value
            if state.leader == NO_LEADER and not state.isr and not state.elr:
                self.books.seen["offline for a lost disk"] += 1
                self.books.expect(
                    "a partition is given up only where the last disk that had it was lost",
                    bool(state.last_known_elr) and set(state.last_known_elr) <= self._emptied,
                    lambda state=state: f"{state}",  # type: ignore[misc]  # a bound default
                )
                self.books.may_be_unclean.add(index)
                leader = next(each for each in state.replicas if each not in state.last_known_elr)
                after = with_epochs(state, replace(state, leader=leader, isr=(leader,), last_known_elr=()))
                self.etcd.transact(Transaction(modified={key: entry.mod_revision}, puts={key: after}))

    def _run(self, duration_ms: int) -> None:
        self.schedule.run_until(self.schedule.time_ms + duration_ms)

    def _unwell(self) -> list[str]:
        found = []
        for index in self.indexes:
            state: PartitionState = self.etcd.entries[partition_key(index)].value
            if state.leader == NO_LEADER or set(state.isr) != set(state.replicas) or state.adding:
                found.append(f"partition {index}: {state}")
        return found

    def _check_logs(self, producers: list[Producer]) -> None:
        """All replicas have the same, and all that was acknowledged, once nobody writes any more."""
        for each in producers:
            each.alive = False
        self._run(10_000)
        for index in self.indexes:
            state: PartitionState = self.etcd.entries[partition_key(index)].value
            logs = [self.disks[each].logs[index] for each in state.replicas]
            for log in logs:
                self.books.survives(index, log)
                self.books.expect(
                    "in the end all replicas are equal",
                    log.records == logs[0].records and log.epochs.latest >= logs[0].records[-1].epoch,
                    lambda index=index: f"partition {index}",  # type: ignore[misc]  # a bound default
                )
