"""Threads, crashes and time do what they like; what must hold of streams groups holds. By seed.

After every step the log says what the core knows, no task is run by two members, nor believed to be, no
process has a task in two roles, and no epoch goes back.
"""

import random

import pytest

from kohort.broker.group import GroupConfig
from kohort.broker.group.streams.tasks import Task
from kohort.broker.group.streams.test_world import StreamsWorld, Thread, application, subtopology, topic
from kohort.protocol.errors import ErrorCode
from tests.repetitions import repetitions

STEPS = 300
GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
TOPOLOGY = application(
    subtopology("0", "t", sinks=["g-r"]),
    subtopology("1", repartition=[topic("g-r")], changelogs=["g-c"]),
    subtopology("2", "u", changelogs=["g-d"]),
)
SOURCES = {"t": 4, "u": 3}
TASKS = {
    *(Task(part, index) for part in "01" for index in range(4)),
    *(Task("2", index) for index in range(3)),
}
PROCESSES = 4


class Walk:
    """A world in which threads act at random; each believes that it has what it was told last."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = StreamsWorld(
            GroupConfig(
                group_streams_assignment_interval_ms=self.random.choice((0, 0, 1_000)),
                group_streams_initial_rebalance_delay_ms=self.random.choice((0, 3_000)),
                group_streams_max_size=7,
            ),
            **SOURCES,
        )
        self.standbys = 0
        self.numbers = iter(range(10**6))
        self.members = [self.new_member() for _ in range(6)]
        self.heard: dict[str, int] = {}
        self.stubborn: set[str] = set()  # Who gives up nothing.

    def new_member(self) -> Thread:
        number = next(self.numbers)
        return Thread(self.world, f"m{number}", f"p{self.random.randrange(PROCESSES)}", topology=TOPOLOGY)

    def step(self) -> None:
        member = self.random.choice(self.members)
        dice = self.random.random()
        if dice < 0.8:
            self.behave(member)
        elif dice < 0.9:
            self.world.sleep(self.random.randrange(3_000))
        else:
            rare = (
                *(self.leave, self.die, self.lose_an_answer, self.crash, self.restart, self.make_topics),
                *(self.topics, self.long_sleep, self.other_standbys, self.stop_listening),
            )
            self.random.choice(rare)(member)
        self.check()

    def behave(self, member: Thread) -> None:
        """Do what a real member would do next."""
        if member.epoch <= 0:
            assert member.join() in (ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED)
            return
        quiet = member.member_id in self.stubborn or self.random.random() < 0.3
        code = member.heartbeat() if quiet else member.tell()
        if code in GONE:
            self.forget(member)
        else:
            assert code is ErrorCode.NONE

    def forget(self, member: Thread) -> None:
        """Give up everything and begin anew, as one that was put out."""
        member.active, member.standby = set(), set()
        member.epoch = 0

    def leave(self, member: Thread) -> None:
        if member.epoch > 0:
            member.leave()
            self.forget(member)

    def die(self, member: Thread) -> None:
        """Nothing is ever heard of it again."""
        self.members[self.members.index(member)] = self.new_member()

    def lose_an_answer(self, member: Thread) -> None:
        """The heartbeat counts, and the member does not hear what came of it."""
        if member.epoch <= 0:
            return
        before = member.epoch, set(member.active), set(member.standby)
        member.tell()
        member.epoch, member.active, member.standby = before

    def crash(self, member: Thread) -> None:
        """A heartbeat is decided, and the broker dies before it is on the disk: nobody has heard of it."""
        if member.epoch <= 0:
            return
        self.world.flushes_at_once = False
        self.world.run(self.world.core.handle(member.command(member.epoch), self.world.now_ms))
        self.world.flushes_at_once = True
        self.world.restart()

    def restart(self, _member: Thread) -> None:
        self.world.restart()

    def make_topics(self, _member: Thread) -> None:
        if "g" in self.world.core.groups:
            self.world.make_topics()

    def topics(self, _member: Thread) -> None:
        """A topic goes for a while, or one that nobody reads comes."""
        counts = dict(self.world.counts)
        name = self.random.choice(("u", "v", "g-d"))
        if name in counts:
            del counts[name]
        elif name != "g-d":
            counts[name] = 3
        self.world.change(**counts)

    def other_standbys(self, _member: Thread) -> None:
        self.standbys = self.random.randrange(3)
        self.world.configure(streams_num_standby_replicas=str(self.standbys))

    def stop_listening(self, member: Thread) -> None:
        """The member says no more what it has, as long as it likes; or it does so again."""
        self.stubborn ^= {member.member_id}

    def long_sleep(self, _member: Thread) -> None:
        self.world.sleep(self.random.choice((20_000, 50_000, 70_000)))

    def check(self) -> None:
        """No two members that the group knows believe that a task is theirs; no epoch goes back."""
        group = self.world.core.groups.get("g")
        known = {} if group is None else group.members
        believed: dict[Task, str] = {}
        for member in self.members:
            if member.member_id not in known or member.epoch <= 0:
                continue
            assert member.epoch >= self.heard.get(member.member_id, 0)
            for task in member.active:
                other = believed.setdefault(task, member.member_id)
                assert other == member.member_id, (task, other, member.member_id)

    def come_to_rest(self) -> None:
        """Everybody behaves, and who is dead is put out: then each task is run, and has its copies."""
        self.stubborn.clear()
        self.world.change(**{**self.world.counts, **SOURCES})
        for _ in range(12):
            self.world.sleep(10_000)
            for _ in range(3):
                for member in self.members:
                    self.behave(member)
                    self.check()
                self.world.make_topics()
        for _ in range(3):
            for member in self.members:
                assert member.epoch <= 0 or member.tell() is ErrorCode.NONE
        group = self.world.group()
        assert group.state.value == "Stable", group
        alive = [each for each in self.members if each.epoch > 0]
        assert set(group.members) == {each.member_id for each in alive}
        assert sorted(task for each in alive for task in each.active) == sorted(TASKS)
        loads = [len(each.active) for each in alive]
        assert max(loads) - min(loads) <= 2
        copies = min(self.standbys, len({each.process for each in alive}) - 1)
        expected = sorted(task for task in TASKS if task.subtopology_id != "0" for _ in range(copies))
        assert sorted(task for each in alive for task in each.standby) == expected


@pytest.mark.parametrize("seed", range(repetitions(40, by_night=1_000)))
def test_what_must_hold_of_streams_groups_holds_whatever_threads_do(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.come_to_rest()
