"""Members of both protocols come, go and crash in one group, whose kind follows them. By seed."""

import random

import pytest

from kohort.broker.group import GroupConfig
from kohort.broker.group.consumer.test_migrating import ALL, Classic
from kohort.broker.group.consumer.test_world import Consumer, ConsumerWorld
from kohort.protocol.errors import ErrorCode
from tests.repetitions import repetitions

STEPS = 200
GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class Walk:
    """A world in which one group's members are of changing protocols."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cooperative = self.random.random() < 0.5
        interval_ms = self.random.choice((0, 0, 1_000))
        self.world = ConsumerWorld(GroupConfig(group_consumer_assignment_interval_ms=interval_ms), t=4)
        self.numbers = iter(range(10**6))
        self.members: list[Classic | Consumer] = [self.new_member() for _ in range(4)]
        self.kinds: set[str] = set()

    def new_member(self, share_classic: float = 0.5) -> Classic | Consumer:
        name = f"m{next(self.numbers)}"
        if self.random.random() < share_classic:
            return Classic(self.world, name, cooperative=self.cooperative)
        return Consumer(self.world, name)

    def step(self) -> None:
        member = self.random.choice(self.members)
        dice = self.random.random()
        if dice < 0.8:
            self.behave(member)
        elif dice < 0.9:
            self.world.sleep(self.random.randrange(2_000))
        elif dice < 0.95:
            self.replace(member)
        elif dice < 0.97:
            self.world.restart()
            self.unpark()
        elif dice < 0.98:
            self.world.sleep(self.random.choice((8_000, 50_000)))
        else:
            self.crash(member)
        self.check()

    def behave(self, member: Classic | Consumer) -> None:
        if isinstance(member, Classic):
            member.act()
        elif member.epoch <= 0:
            member.join()
        elif member.heartbeat() in GONE:
            member.owned = member.told = {}
            member.epoch = 0

    def replace(self, member: Classic | Consumer) -> None:
        """It leaves, or dies, and another one of either protocol comes."""
        is_member = member.generation_id >= 0 if isinstance(member, Classic) else member.epoch > 0
        if is_member and not getattr(member, "parked", "") and self.random.random() < 0.7:
            member.leave()
        self.members[self.members.index(member)] = self.new_member(self.random.choice((0.0, 0.5, 1.0)))

    def crash(self, member: Classic | Consumer) -> None:
        """What a member does is decided, and the broker dies before it is on the disk."""
        self.world.flushes_at_once = False
        if isinstance(member, Consumer) and member.epoch > 0:
            self.world.run(self.world.core.handle(member.command(), self.world.now_ms))
        self.world.flushes_at_once = True
        self.world.restart()
        self.unpark()

    def unpark(self) -> None:
        """Requests that waited are lost with the broker: clients send them again."""
        for member in self.members:
            if isinstance(member, Classic) and member.parked:
                member.parked, member.wants_to_join = "", True

    def check(self) -> None:
        """No two members that the group knows believe that a partition is theirs."""
        group = self.world.core.groups.get("g")
        if group is None:
            return
        self.kinds.add(group.group_type)
        known = set(group.members)
        has = [place for each in self.members if each.member_id in known for place in each.has]
        assert len(has) == len(set(has)), [(each.member_id, each.has) for each in self.members]

    def come_to_rest(self) -> None:
        for _ in range(100):
            self.world.sleep(700)
            for member in self.members:
                self.behave(member)
                self.check()
        group = self.world.core.groups["g"]
        assert group.state.value == "Stable", group
        assert group.member_count == len(self.members)
        assert set().union(*(each.has for each in self.members)) == ALL
        has_new = any(isinstance(each, Consumer) for each in self.members)
        assert group.group_type == ("consumer" if has_new else "classic")


FOUND = (868, 962)
"""Seeds by which a partition had two readers: a downgrade right after a restart, an answer lost."""


@pytest.mark.parametrize("seed", [*FOUND, *range(repetitions(40, by_night=800))])
def test_members_of_both_protocols_never_share_a_partition_and_come_to_rest(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.come_to_rest()
    walk.members = [walk.new_member(1.0) for _ in walk.members]  # The others die.
    walk.world.sleep(60_000)
    walk.come_to_rest()
