"""What goes wrong in a cluster, and when: by chance, one after another and several at once."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.controller import ReassignmentRefused, TopicRules, begin, cancel
from kohort.broker.controller.election import reassigned
from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.replication import Found
from tests.simulation.cluster.disk import WHOLE
from tests.simulation.cluster.etcd import MEMBERS, Transaction
from tests.simulation.cluster.links import ETCD
from tests.simulation.cluster.session import CONTROLLER, TTL_MS, name_of, partition_key, rules_key

if TYPE_CHECKING:
    from tests.simulation.cluster.broker import Broker
    from tests.simulation.cluster.world import World

INTERVAL_MS = 2_600
MOVE_MS = 20_000
"""How long a move does not end because one of those who are added is dead."""
LOOK_MS = 200
LATE_MS = 4_000
NOT_SYNCED = WHOLE._replace(is_synced=False, is_same_boot=False)
RESTORED = WHOLE._replace(is_last_life=False, was_stopped=True)


class Faults:
    """Begins a fault every few seconds until it is stopped."""

    def __init__(self, world: "World") -> None:
        self.injected: Counter[str] = Counter()
        self._world = world
        self._random = world.random
        self._stopped = False
        self._kinds: tuple[tuple[int, str, Callable[[], bool]], ...] = (
            (5, "link cut both ways", lambda: self._cut(both=True)),
            (5, "link cut one way", lambda: self._cut(both=False)),
            (4, "broker cut off", self._cut_off),
            (3, "link to etcd cut", self._cut_etcd),
            (3, "link slow", self._slow_link),
            (2, "etcd member down", self._member_down),
            (3, "etcd member slow", self._member_slow),
            (3, "etcd member stands still", self._member_stands),
            (3, "who joins dies while etcd holds that back", self._join_late),
            (2, "etcd compacted", self._compact),
            (6, "broker paused", self._pause),
            (5, "broker killed", lambda: self._crash(lost_power=False)),
            (5, "power failed", lambda: self._crash(lost_power=True)),
            (2, "power failed everywhere", self._crash_all),
            (3, "broker came back empty", self._empty),
            (2, "a disk lost what it had synced", lambda: self._lose_tails(WHOLE._replace(is_short=True))),
            (2, "power took what was not synced", lambda: self._lose_tails(NOT_SYNCED)),
            (2, "folder restored from a backup", lambda: self._lose_tails(RESTORED)),
            (4, "broker drained and restarted", self._drain),
            (4, "reassignment begun", self._reassign),
            (1, "reassignment taken back", self._cancel),
            (3, "min.insync.replicas changed", self._change_rules),
            (3, "min.insync.replicas lowered, and leader and controller die", self._lower_and_crash),
            (3, "disk slow", self._slow_disk),
        )
        if world.changes_minds:
            self._kinds += ((12, "move that will not end begun, to be taken back", self._change_mind),)
        world.schedule.after(2_000, self._turn)

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True

    def _turn(self) -> None:
        if self._stopped:
            return
        _, name, inject = self._random.choices(self._kinds, [each[0] for each in self._kinds])[0]
        if inject():
            self.injected[name] += 1
            self._world.note(f"fault: {name}")
        self._world.schedule.after(self._random.randrange(2 * INTERVAL_MS), self._turn)

    def _duration_ms(self) -> int:
        return self._random.choice((500, 2_000, 8_000, 15_000)) + self._random.randrange(500)

    def _broker(self) -> int | None:
        """Return one that runs; most of them always do."""
        running = [each for each, broker in self._world.brokers.items() if broker.alive]
        return self._random.choice(running) if len(running) > 2 else None

    # -- links and etcd ---------------------------------------------------------------------------------

    def _cut(self, *, both: bool) -> bool:
        one, other = self._random.sample(self._world.node_ids, 2)
        duration_ms = self._duration_ms()
        self._world.links.cut(name_of(one), name_of(other), duration_ms)
        if both:
            self._world.links.cut(name_of(other), name_of(one), duration_ms)
        return True

    def _cut_off(self) -> bool:
        one = self._random.choice(self._world.node_ids)
        duration_ms = self._duration_ms()
        with_etcd = self._random.random() < 0.5
        for other in [name_of(each) for each in self._world.node_ids] + [ETCD] * with_etcd:
            self._world.links.cut(name_of(one), other, duration_ms)
            self._world.links.cut(other, name_of(one), duration_ms)
        return True

    def _cut_etcd(self) -> bool:
        one, duration_ms = name_of(self._random.choice(self._world.node_ids)), self._duration_ms()
        ways = self._random.choice((((one, ETCD),), ((ETCD, one),), ((one, ETCD), (ETCD, one))))
        for source, target in ways:
            self._world.links.cut(source, target, duration_ms)
        return True

    def _slow_link(self) -> bool:
        one, other = self._random.sample(self._world.node_ids, 2)
        target = self._random.choice((name_of(other), ETCD))
        duration_ms = self._duration_ms()
        for source, to in ((name_of(one), target), (target, name_of(one))):
            self._world.links.slow(source, to, duration_ms, self._random.choice((100, 1_200, 4_000)))
        return True

    def _member_down(self) -> bool:
        members = self._world.etcd.members
        if sum(each.is_up for each in members) <= MEMBERS // 2 + 1:
            return False
        member = self._random.choice(members)
        member.is_up = False
        self._world.schedule.after(self._duration_ms(), lambda: setattr(member, "is_up", True))
        return True

    def _member_slow(self) -> bool:
        member = self._random.choice(self._world.etcd.members)
        member.latency_ms = self._random.choice((0, 200, 1_200))
        member.watch_lag_ms = self._random.choice((0, 500, 2_000, 5_000))

        def heal() -> None:
            member.latency_ms = member.watch_lag_ms = 0

        self._world.schedule.after(self._duration_ms(), heal)
        return True

    def _member_stands(self) -> bool:
        """Have a member carry out later what it is asked meanwhile, and nobody waits for any more."""
        member = self._random.choice(self._world.etcd.members)
        member.stands_until_ms = self._world.schedule.time_ms + self._duration_ms()
        return True

    def _join_late(self) -> bool:
        """Have the next change that lets a follower in carried out late; it dies, and is cut off."""

        def hold(leader: "Broker", node_id: int) -> None:
            self._world.on_joining = lambda leader, node_id: None
            if self._stopped or not self._world.brokers[node_id].alive:
                return
            standing_ms = LATE_MS + self._random.randrange(LATE_MS)
            member = self._world.etcd.members[leader.member]
            member.stands_until_ms = self._world.schedule.time_ms + standing_ms
            for source, target in ((leader.node_id, node_id), (node_id, leader.node_id)):
                self._world.links.cut(name_of(source), name_of(target), standing_ms + 2_000)
            self._world.note(f"fault: {node_id} is about to join, and dies")
            self._world.crash(node_id, lost_power=False)
            self._world.start_later(node_id, 50)

        self._world.on_joining = hold
        return True

    def _compact(self) -> bool:
        self._world.etcd.compact()
        return True

    # -- machines ---------------------------------------------------------------------------------------

    def _pause(self) -> bool:
        node_id = self._broker()
        if node_id is None:
            return False
        self._world.brokers[node_id].pause(
            self._random.choice((1_000, TTL_MS - 1_000, TTL_MS + 3_000, 20_000))
        )
        return True

    def _crash(self, *, lost_power: bool) -> bool:
        node_id = self._broker()
        if node_id is None:
            return False
        self._world.crash(node_id, lost_power=lost_power)
        self._world.start_later(node_id, self._random.choice((50, 2_000, 15_000)))
        return True

    def _crash_all(self) -> bool:
        for node_id in list(self._world.node_ids):
            if self._world.brokers[node_id].alive:
                self._world.crash(node_id, lost_power=True)
                self._world.start_later(node_id, self._random.randrange(12_000))
        return True

    def _empty(self) -> bool:
        """Lose a machine's disk, where others have everything, or where that is not asked for."""
        node_id = self._broker()
        if node_id is None or not self._world.may_lose(node_id):
            return False
        self._world.crash(node_id, lost_power=True)
        self._world.replace_disk(node_id)
        self._world.start_later(node_id, self._random.choice((50, 2_000, 15_000)))
        return True

    def _lose_tails(self, found: Found) -> bool:
        """Lose what one broker had last, and start it again, mostly within its lease."""
        node_id = self._broker()
        if node_id is None or not self._world.may_lose(node_id):
            return False
        self._world.crash(node_id, lost_power=True)
        self._world.lose_tails(node_id, found)
        self._world.start_later(node_id, self._random.choice((50, 50, 2_000, 15_000)))
        return True

    def _drain(self) -> bool:
        node_id = self._broker()
        if node_id is None:
            return False
        self._world.drain(node_id)
        return True

    def _slow_disk(self) -> bool:
        disk = self._world.disks[self._random.choice(self._world.node_ids)]
        disk.sync_ms = self._random.choice((50, 400))
        self._world.schedule.after(self._duration_ms(), lambda: setattr(disk, "sync_ms", 2))
        return True

    # -- who administers --------------------------------------------------------------------------------

    def _change(self, change: Callable[[PartitionState], PartitionState], index: int | None = None) -> bool:
        """Change this partition, or else any, as an administrator does, by compare-and-set."""
        key = partition_key(self._random.choice(self._world.indexes) if index is None else index)
        entry = self._world.etcd.entries[key]
        try:
            after = reassigned(entry.value, change(entry.value), self._world.live_brokers())
        except ReassignmentRefused:
            return False
        if after is entry.value:
            return False
        asked = Transaction(modified={key: entry.mod_revision}, puts={key: after})
        return self._world.etcd.transact(asked).succeeded

    def _reassign(self) -> bool:
        live = self._world.live_brokers()

        def move(state: PartitionState) -> PartitionState:
            count = len(state.replicas) - len(state.adding)
            target = self._random.sample(self._world.node_ids, count)
            return begin(state, target, live)

        return self._change(move)

    def _cancel(self) -> bool:
        return self._change(cancel)

    def _change_mind(self) -> bool:
        """Move a partition to two more brokers, of which one dies; what the other leads is moved back."""
        running = [each for each, broker in self._world.brokers.items() if broker.alive]
        index = self._random.choice(self._world.indexes)
        state: PartitionState = self._world.etcd.entries[partition_key(index)].value
        more = [each for each in running if each not in state.replicas]
        if len(running) < 4 or len(more) < 2 or state.adding or state.removing:
            return False
        first, second = self._random.sample(more, 2)
        target = (first, second, *state.replicas)[: len(state.replicas)]
        live = self._world.live_brokers()
        if not self._change(lambda known: begin(known, target, live), index):
            return False
        self._world.crash(second, lost_power=False)
        self._world.start_later(second, MOVE_MS)
        take_back = self._random.choice((cancel, lambda known: begin(known, state.replicas, live)))
        self._look_at_move(index, take_back, self._world.schedule.time_ms + MOVE_MS, drained=False)
        return True

    def _look_at_move(
        self,
        index: int,
        take_back: Callable[[PartitionState], PartitionState],
        until_ms: int,
        *,
        drained: bool,
    ) -> None:
        """Drain the leader once somebody who was added is in sync, and take the move back once he leads."""
        state: PartitionState = self._world.etcd.entries[partition_key(index)].value
        if self._stopped or not state.adding or self._world.schedule.time_ms > until_ms:
            return
        if state.leader in state.adding and self._change(take_back, index):
            self._world.note(f"fault: partition {index} taken back from {state.leader}")
            return
        leader = self._world.brokers.get(state.leader)
        may_move = leader is not None and leader.alive and not set(state.isr).isdisjoint(state.adding)
        if may_move and not drained:
            self._world.drain(state.leader)
            drained = True
        look = partial(self._look_at_move, index, take_back, until_ms, drained=drained)
        self._world.schedule.after(LOOK_MS, look)

    def _change_rules(self) -> bool:
        key = rules_key(self._random.choice(self._world.indexes))
        known: TopicRules = self._world.etcd.entries[key].value
        minimum = self._random.choice((1, 2, 3))
        changed = known._replace(min_insync_replicas=minimum)
        return self._world.etcd.transact(Transaction(puts={key: changed})).succeeded

    def _lower_and_crash(self) -> bool:
        """Let a leader commit alone from now on, and die before the controller has looked at it."""
        states = [self._world.etcd.entries[partition_key(each)].value for each in self._world.indexes]
        chosen = [each for each in states if each.elr and each.leader in self._world.brokers]
        if not chosen:
            return False
        state = self._random.choice(chosen)
        key = rules_key(state.index)
        changed = self._world.etcd.entries[key].value._replace(min_insync_replicas=1)
        self._world.etcd.transact(Transaction(puts={key: changed}))
        controller = self._world.etcd.entries.get(CONTROLLER)
        dying = {state.leader} if controller is None else {state.leader, controller.value[0]}
        if controller is not None and controller.value[0] != state.leader:
            self._world.brokers[controller.value[0]].pause(5_000)
        delay_ms = 20 + self._random.randrange(400)
        for node_id in dying:
            self._world.schedule.after(delay_ms, partial(self._die, node_id))
        return True

    def _die(self, node_id: int) -> None:
        if self._world.brokers[node_id].alive:
            self._world.crash(node_id, lost_power=True)
            self._world.start_later(node_id, 15_000)
