"""Members of a share group under a seed: they come, go, fall silent and change their minds; coordinators die.

After every step the log says what the core knows, nobody has what is not ready, and epochs only grow. In the
end every partition that somebody reads has a reader, and every member has a partition.
"""

from random import Random

import pytest

from kohort.broker.group.share.test_world import AT_ONCE, Sharer, ShareWorld
from kohort.protocol.errors import ErrorCode

SEEDS = range(60)
STEPS = 120
TOPICS = ("t", "u", "v")
FINE = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class Walk:
    """One group, and all members that it ever had."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.counts = {"t": 3, "u": 2}
        self.world = ShareWorld(AT_ONCE, **self.counts)
        self.members: list[Sharer] = []
        self.gone: set[str] = set()
        self.numbers = 0

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
        self.settle()

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.15:
            self.join()
        elif choice < 0.6:
            self.beat()
        elif choice < 0.68 and self.members:
            leaver = self.members.pop(self.random.randrange(len(self.members)))
            assert leaver.leave() in FINE
        elif choice < 0.75:
            self.world.sleep(self.random.randrange(20_000))
        elif choice < 0.87:
            if "g" in self.world.core.groups:
                self.world.make_ready()
        elif choice < 0.94:
            self.change()
        else:
            self.world.restart()

    def join(self) -> None:
        self.numbers += 1
        topics = self.random.sample(TOPICS, self.random.randrange(1, 3))
        member = Sharer(self.world, f"m{self.numbers}", *topics)
        assert member.join() is ErrorCode.NONE
        self.members.append(member)

    def beat(self) -> None:
        if not self.members:
            return
        member = self.random.choice(self.members)
        fields = {}
        if self.random.random() < 0.1:
            member.topics = tuple(self.random.sample(TOPICS, self.random.randrange(1, 3)))
            fields["subscribed_topic_names"] = member.topics
        code = member.heartbeat(**fields)
        assert code in FINE
        if code is not ErrorCode.NONE:
            assert member.join() is ErrorCode.NONE

    def change(self) -> None:
        topic = self.random.choice(TOPICS)
        if topic in self.gone:
            return  # A topic of that name would have another id.
        if topic in self.counts and self.random.random() < 0.1:
            del self.counts[topic]
            self.gone.add(topic)
        else:
            self.counts[topic] = self.counts.get(topic, 0) + 1
        self.world.change(**self.counts)

    def settle(self) -> None:
        if not self.members:
            self.join()
        for _ in range(4):
            for member in self.members:
                if member.heartbeat() is not ErrorCode.NONE:
                    assert member.join() is ErrorCode.NONE
            self.world.make_ready()
        wanted = {
            (topic, index)
            for member in self.members
            for topic in member.topics
            for index in range(self.counts.get(topic, 0))
        }
        group = self.world.group()
        silent = group.members.keys() - {each.member_id for each in self.members}
        assert not silent, "whoever left is out"
        assert {place for member in self.members for place in member.has} == wanted
        for member in self.members:
            reads = {place for place in wanted if place[0] in member.topics}
            assert member.has <= reads
            assert bool(member.has) == bool(reads)
        assert {member.epoch for member in self.members} == {group.epoch}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_completed_in_the_end_for_any_member_behaviour(seed: int) -> None:
    Walk(seed).run()
