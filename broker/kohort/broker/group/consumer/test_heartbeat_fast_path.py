"""A member without changes gets the same answer on the fast path as on the slow one.

Two worlds run the same steps.
"""

from random import Random

import pytest

from kohort.broker.group import GroupConfig, coordinator
from kohort.broker.group.consumer import heartbeat_fast_path, heartbeats
from kohort.broker.group.consumer.commands import ConsumerGroupHeartbeat
from kohort.broker.group.consumer.test_world import AT_ONCE, Consumer, ConsumerWorld, metadata_of
from kohort.broker.group.decision import Decision
from kohort.broker.group.turn import Handler, ShardState

NAMES = ("a", "b", "c", "d")


class Life:
    """A world and its members, to which things happen by their numbers."""

    def __init__(self, config: GroupConfig) -> None:
        self.world = ConsumerWorld(config, t=4)
        self.members = [
            Consumer(
                self.world, name, regex="t.*" if name == "d" else None, instance="i" if name == "c" else None
            )
            for name in NAMES
        ]

    def happens(self, kind: int, who: int, number: int) -> object:
        """Let one thing happen; return what can be seen of it."""
        member = self.members[who]
        if kind <= 4:
            member.quiet_heartbeat()
        elif kind <= 6:
            member.heartbeat()
        elif kind == 7:
            member.join()
        elif kind == 8 and number < 30:
            member.leave()
        elif kind == 9:
            self.world.sleep(number * 400)
        elif kind == 10 and number < 10:
            self.world.change(t=4 + number % 3)
        elif kind == 11 and number < 10:
            overrides = {"g": {"consumer.heartbeat.interval.ms": str(5_000 + number)}}
            topics = {name: len(each.partitions) for name, each in self.world.metadata.topics.items()}
            found = metadata_of(self.world.metadata.version + 1, **topics)
            self.world.metadata = type(found)(found.version, found.topics, overrides)
        sessions = {}
        group = self.world.core.groups.get("g")
        if group is not None:
            sessions = {
                member_id: (each.last_seen_ms, each.deadline_ms)
                for member_id, each in self.world.group().sessions.items()
            }
        return member.last, member.epoch, sessions, len(self.world.events)


@pytest.mark.parametrize("config", [AT_ONCE, GroupConfig()], ids=["at once", "with an interval"])
@pytest.mark.parametrize("count", [3, 4], ids=["names", "expressions"])
def test_the_fast_path_gives_the_same_answers_as_the_core(
    config: GroupConfig, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = 0
    look_closely = coordinator.in_a_turn(heartbeats.heartbeat)

    def counted(groups: ShardState, command: ConsumerGroupHeartbeat, now_ms: int) -> Decision:
        nonlocal quick
        found = heartbeat_fast_path.answer_at_once(groups, command, now_ms)
        quick += found is not None
        return look_closely(groups, command, now_ms) if found is None else found

    def happens(life: Life, handler: Handler, what: tuple[int, int, int]) -> object:
        monkeypatch.setitem(coordinator._HANDLERS, ConsumerGroupHeartbeat, handler)
        return life.happens(*what)

    for seed in range(10):
        dice, close, life = Random(seed), Life(config), Life(config)
        assert happens(life, counted, (7, 0, 0)) == happens(close, look_closely, (7, 0, 0))
        for _ in range(200):
            what = dice.randrange(12), dice.randrange(count), dice.randrange(100)
            assert happens(life, counted, what) == happens(close, look_closely, what)
    assert quick > 50


def quiet_world() -> tuple[ConsumerWorld, Consumer]:
    world = ConsumerWorld(t=4)
    member = Consumer(world, "a")
    member.join()
    member.heartbeat()
    assert quickly(world, member)
    return world, member


def quickly(world: ConsumerWorld, member: Consumer, **fields: object) -> bool:
    """Return whether the member's next words are answered at once."""
    message = member.command().message
    message = type(message)(
        group_id="g",
        member_id=member.member_id,
        member_epoch=member.epoch,
        **fields,  # type: ignore[arg-type]
    )
    command = ConsumerGroupHeartbeat(
        0, message, 1, "", "client", "/127.0.0.1", world.metadata, world.may_describe
    )
    return heartbeat_fast_path.answer_at_once(world.core._groups, command, world.now_ms) is not None


def test_only_an_empty_heartbeat_of_an_unchanged_group_takes_the_fast_path() -> None:
    world, member = quiet_world()
    for fields in (
        {"topic_partitions": ()},
        {"subscribed_topic_names": ("t",)},
        {"subscribed_topic_regex": "t"},
        {"instance_id": "i"},
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 1},
        {"server_assignor": "range"},
    ):
        assert not quickly(world, member, **fields), fields
    world.change(t=5)
    assert not quickly(world, member)
    world, member = quiet_world()
    Consumer(world, "b").join()
    assert not quickly(world, member)
