"""Members, crashes and time do what they like; what must hold of consumer groups holds. By seed."""

import random

import pytest

from kohort.broker.group import GroupConfig
from kohort.broker.group.consumer.test_world import Consumer, ConsumerWorld
from kohort.protocol.errors import ErrorCode
from tests.repetitions import repetitions

STEPS = 300
GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)
TOPICS = ("t", "u", "v-1", "v-2")


class Walk:
    """A world in which members act at random; each believes that it has what it was told last."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        interval_ms = self.random.choice((0, 0, 1_000))
        self.world = ConsumerWorld(
            GroupConfig(group_consumer_assignment_interval_ms=interval_ms, group_consumer_max_size=6),
            t=4,
            u=3,
        )
        self.numbers = iter(range(10**6))
        self.members = [self.new_member() for _ in range(6)]
        self.heard: dict[str, int] = {}
        self.unsure: set[str] = set()  # Who has not heard the last answer.

    def new_member(self) -> Consumer:
        choose = self.random.choice
        number = next(self.numbers)
        regex = choose((None, None, "v-.*"))
        return Consumer(
            self.world,
            f"m{number}",
            *choose((("t",), ("t",), ("t", "u"), ("u", "v-1"))),
            regex=regex,
            instance=choose((None, None, f"i{number % 3}")),
            assignor=choose((None, None, "range", "uniform")),
        )

    def step(self) -> None:
        member = self.random.choice(self.members)
        dice = self.random.random()
        if dice < 0.8:
            self.behave(member)
        elif dice < 0.9:
            self.world.sleep(self.random.randrange(3_000))
        else:
            rare = (
                *(self.leave, self.go_away, self.die, self.lose_an_answer, self.crash, self.restart),
                *(self.topics, self.long_sleep, self.other_topics, self.stop_listening),
            )
            self.random.choice(rare)(member)
        self.check()

    def behave(self, member: Consumer) -> None:
        """Do what a real member would do next."""
        if member.epoch <= 0:
            member.join()
            return
        if member.member_id in self.unsure:  # As Kafka's clients do: they tell all of themselves again.
            code = member.heartbeat(
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=member.topics,
                subscribed_topic_regex=member.regex,
            )
            self.unsure.discard(member.member_id)
        else:
            code = self.random.choice((member.heartbeat, member.heartbeat, member.quiet_heartbeat))()
        if code in GONE:
            self.forget(member)

    def forget(self, member: Consumer) -> None:
        """Give up everything and begin anew, as one that was put out."""
        member.owned = member.told = {}
        member.epoch = 0

    def leave(self, member: Consumer) -> None:
        if member.epoch > 0:
            member.leave()
            self.forget(member)

    def go_away(self, member: Consumer) -> None:
        """A static member's process ends, and another takes its place later."""
        if member.epoch > 0 and member.instance is not None and member.leave(-2) is ErrorCode.NONE:
            self.forget(member)
            member.member_id = f"m{next(self.numbers)}"

    def die(self, member: Consumer) -> None:
        """Nothing is ever heard of it again."""
        self.members[self.members.index(member)] = self.new_member()

    def lose_an_answer(self, member: Consumer) -> None:
        """The heartbeat counts, and the member does not hear what came of it."""
        if member.epoch <= 0:
            return
        epoch, owned, told = member.epoch, member.owned, member.told
        member.heartbeat()
        member.epoch, member.owned, member.told = epoch, owned, told
        self.unsure.add(member.member_id)

    def crash(self, member: Consumer) -> None:
        """A heartbeat is decided, and the broker dies before it is on the disk: nobody has heard of it."""
        if member.epoch <= 0:
            return
        self.world.flushes_at_once = False
        self.world.run(self.world.core.handle(member.command(), self.world.now_ms))
        self.world.flushes_at_once = True
        self.world.restart()
        self.unsure.add(member.member_id)

    def restart(self, _member: Consumer) -> None:
        self.world.restart()

    def topics(self, _member: Consumer) -> None:
        counts = {"t": self.random.randrange(1, 7), "u": 3}
        counts.update({name: 2 for name in TOPICS[2:] if self.random.random() < 0.5})
        self.world.change(**counts)

    def other_topics(self, member: Consumer) -> None:
        if member.epoch > 0:
            member.topics = self.random.choice((("t",), ("u",), ("t", "u")))
            if member.heartbeat(subscribed_topic_names=member.topics) in GONE:
                self.forget(member)

    def stop_listening(self, member: Consumer) -> None:
        """The member gives up no more, as long as it likes; or it does so again."""
        member.stubborn = not member.stubborn
        member.act()

    def long_sleep(self, _member: Consumer) -> None:
        self.world.sleep(self.random.choice((20_000, 50_000, 70_000)))

    def check(self) -> None:
        """No two members that the group knows believe that a partition is theirs; no epoch goes back."""
        group = self.world.core.groups.get("g")
        known = {} if group is None else group.members
        believed: dict[object, str] = {}
        for member in self.members:
            if member.member_id not in known or member.epoch <= 0 or known[member.member_id].epoch <= 0:
                continue
            assert member.epoch >= self.heard.get(member.member_id, 0)
            for topic_id, indexes in member.owned.items():
                for index in indexes:
                    other = believed.setdefault((topic_id, index), member.member_id)
                    assert other == member.member_id, (topic_id, index, other, member.member_id)

    def come_to_rest(self) -> None:
        """Everybody behaves, and who is dead is put out: then each partition that is read has one owner.

        So it is again when nothing happens but that a topic gets more partitions.
        """
        self.settle()
        self.world.change(t=8, u=3)
        self.settle()

    def settle(self) -> None:
        for member in self.members:
            member.stubborn = False
            member.act()
        for _ in range(12):
            self.world.sleep(10_000)
            for _ in range(3):
                for member in self.members:
                    self.behave(member)
                    self.check()
        group = self.world.group()
        assert group.state.value == "Stable", group
        alive = {each.member_id for each in self.members if each.epoch > 0}
        assert set(group.members) == alive
        topics = self.world.metadata.topics
        read = {name for name in group.subscribed_topics or () if name in topics}
        expected = {(name, index) for name in read for index in topics[name].partitions}
        assert sum(len(each.has) for each in self.members) == len(expected)
        assert set().union(*(each.has for each in self.members)) == expected


@pytest.mark.parametrize("seed", range(repetitions(40, by_night=1_000)))
def test_what_must_hold_of_consumer_groups_holds_whatever_members_do(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.come_to_rest()
