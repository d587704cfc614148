"""Members of one group in virtual time where nothing fails: the strictest rules have to hold.

The client's own membership core against the broker's own parts, as in tests/simulation, but whoever ends
says goodbye, and nobody misses a session. So a partition never has two owners, at no moment; and a member
of a cooperative group never gives up what it keeps.
"""

from dataclasses import dataclass, replace
from random import Random

from kohort.broker.group import GroupState
from kohort.client.membership import Revoke, State
from tests.simulation.books import Violation
from tests.simulation.member import Member, Plan
from tests.simulation.schedule import START_MS
from tests.simulation.world import Shape, World

GROUP = "calm"
TOPICS = ("t0", "t1", "t2")
MEMBERS_MOST = 8
EVENTS = 25
QUIET_MS_MAX = 20_000
SETTLE_MS = 120_000
SETTLED_MS = 30_000
NEWS_MS = 31_000  # So long new partitions remain unheard of.

EAGER = ("range",)
BOTH = ("cooperative-sticky", "range")
COOPERATIVE = ("cooperative-sticky",)
STRATEGIES = (EAGER, ("sticky",), ("roundrobin",), BOTH, COOPERATIVE, COOPERATIVE)


@dataclass(frozen=True, slots=True)
class Told:
    """What a run amounted to."""

    handovers: int
    revoked: int
    generations: int
    seen: frozenset[str]


class WatchedMember(Member):
    """A member whose handovers are looked at."""

    def __init__(self, world: "CalmWorld", name: str, plan: Plan) -> None:
        super().__init__(world, name, plan, None, 9)
        self._calm = world

    def _begin_handover(self) -> None:
        handover = self.membership.begin_handover()  # Given out again to who asks again.
        if isinstance(handover, Revoke):
            self._calm.look_at_revocation(self, handover)
        super()._begin_handover()

    def _end_handover(self) -> None:
        super()._end_handover()
        self._calm.look_at_owners()


class CalmWorld(World):
    """One group; members come, go, change their wishes and their assignors one by one."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, Shape(members=0, groups=1))
        self.chance = Random(seed)
        self.strategy = self.chance.choice(STRATEGIES)
        self.plan = Plan(GROUP, TOPICS, self.strategy, 45_000, 3_000, 300_000)
        self.watched: list[WatchedMember] = []
        self.handovers = self.revoked = 0
        self.seen: set[str] = set()
        self._count = 0

    # -- a run --------------------------------------------------------------------------------------------

    def play(self) -> Told:
        """Let members come and go, then settle. Raises: Violation."""
        with self._patched():
            self.start_broker()
            for _ in range(self.chance.randint(1, 4)):
                self.join()
            events = [self.join, self.leave, self.change_wishes, self.grow_topic, self.restart]
            for _ in range(EVENTS):
                self.schedule.run_until(self.schedule.time_ms + self.chance.randint(0, QUIET_MS_MAX))
                self.chance.choice(events)()
            if self.strategy == EAGER:
                self.migrate()
            self.settle()
            group = self._group(GROUP)
            assert group is not None
            return Told(self.handovers, self.revoked, group.generation_id, frozenset(self.seen))

    def join(self) -> None:
        """Let one more member come."""
        if len(self.watched) < MEMBERS_MOST:
            self._count += 1
            member = WatchedMember(self, f"m{self._count}", self.plan)
            self.watched.append(member)
            self.members.append(member)

    def leave(self) -> None:
        """Let a member close."""
        if len(self.watched) > 1:
            self._close(self.chance.choice(self.watched))

    def restart(self) -> None:
        """Let a member close, and another come in its place."""
        self.leave()
        self.join()

    def change_wishes(self) -> None:
        """Let a member subscribe to other topics."""
        if self.watched:
            member = self.chance.choice(self.watched)
            member.subscribe(tuple(self.chance.sample(TOPICS, self.chance.randint(1, len(TOPICS)))))

    def migrate(self) -> None:
        """Move from eager to cooperative: every member is restarted twice, one by one, while others come."""
        for assignors in (BOTH, COOPERATIVE):
            self.plan = replace(self.plan, assignors=assignors)
            for member in list(self.watched):
                self._close(member)
                self.join()
                self.schedule.run_until(self.schedule.time_ms + self.chance.randint(0, QUIET_MS_MAX))
            self.settle()
        self.seen.add("migrated")

    def _close(self, member: WatchedMember) -> None:
        member.close("the process ends")
        self.watched.remove(member)
        self.members.remove(member)

    # -- what must hold -----------------------------------------------------------------------------------

    def look_at_revocation(self, member: WatchedMember, handover: Revoke) -> None:
        """A cooperative member gives up nothing that its newest assignment leaves it, and that it wants."""
        self.handovers += 1
        self.revoked += sum(map(len, handover.partitions.values()))
        membership = member.membership
        if not membership.is_cooperative:
            self.seen.add("an eager member gives everything up")
            return
        self.seen.add("a cooperative member gives something up")
        kept = [
            (topic, each)
            for topic, partitions in handover.partitions.items()
            for each in partitions
            if topic in membership._topics and each in membership._assigned.get(topic, ())
        ]
        if kept:
            raise Violation(f"{member.name} gives up {kept}, which it keeps")

    def look_at_owners(self) -> None:
        """No partition has two owners."""
        owners: dict[tuple[str, int], str] = {}
        for member in self.watched:
            for topic, partitions in member.owned.items():
                for each in partitions:
                    other = owners.setdefault((topic, each), member.name)
                    if other != member.name:
                        raise Violation(f"{topic}-{each} has two owners, {other} and {member.name}")

    def settle(self) -> None:
        """Let nothing happen until all is settled, and stays so; then everything has an owner."""
        self.schedule.run_until(self.schedule.time_ms + NEWS_MS)
        deadline_ms = self.schedule.time_ms + SETTLE_MS
        while not self._all_settled():
            if self.schedule.time_ms > deadline_ms:
                raise Violation(f"the group has not settled in {SETTLE_MS} ms: {self._states()}")
            self.schedule.run_until(self.schedule.time_ms + 1_000)
        group = self._group(GROUP)
        assert group is not None
        generation_id = group.generation_id
        self.schedule.run_until(self.schedule.time_ms + SETTLED_MS)
        if group.generation_id != generation_id:
            raise Violation(f"the group rebalances by itself: {self._states()}")
        self._check_complete()

    def _all_settled(self) -> bool:
        group = self._group(GROUP)
        return (
            group is not None
            and group.state is GroupState.STABLE
            and len(group.members) == len(self.watched)
            and all(
                each.membership.state is State.STABLE
                and each.membership.generation_id == group.generation_id
                and not each.membership.has_handover
                for each in self.watched
            )
        )

    def _check_complete(self) -> None:
        counts = self.partition_counts()
        wanted = {topic for member in self.watched for topic in member.membership._topics}
        owned = [
            (t, index) for member in self.watched for t, indexes in member.owned.items() for index in indexes
        ]
        missing = {(topic, index) for topic in wanted for index in range(counts[topic])}.difference(owned)
        if missing:
            raise Violation(f"nobody owns {sorted(missing)}: {self._states()}")

    def _states(self) -> str:
        at_ms = self.schedule.time_ms - START_MS
        return f"{at_ms} ms " + ", ".join(
            f"{each.name} {each.membership.state.name} {each.membership.generation_id}"
            for each in self.watched
        )
