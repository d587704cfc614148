"""Groups that change their kind with their members: upgraded one by one, and back."""

import pytest

from kohort.broker.group import GroupConfig, JoinTimer, LeaveGroup, TimerFired
from kohort.broker.group.consumer.test_world import AT_ONCE, Consumer, ConsumerWorld, Place, settle
from kohort.broker.group.events import CauseKind, MemberExpired, RebalanceStarted
from kohort.broker.group.test_world import Client, assignment, subscription
from kohort.protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

ALL = {("t", index) for index in range(4)}


class Classic(Client):
    """A classic member like a real client: it leads if elected, and rejoins if required."""

    def __init__(
        self, world: ConsumerWorld, name: str, *, cooperative: bool = False, instance: str | None = None
    ) -> None:
        protocols = ("cooperative-sticky",) if cooperative else ("range",)
        super().__init__(world, name, protocols=protocols, instance=instance)
        self.cooperative = cooperative
        self.has: set[Place] = set()
        self.wants_to_join = True
        self.parked = ""

    def act(self) -> None:
        """Do the next step: take an answer, join, or send a heartbeat."""
        if self.parked == "join":
            self._take_join()
        elif self.parked == "sync":
            self._take_sync()
        elif self.wants_to_join:
            self._join()
        else:
            self._live()

    def restart(self) -> None:
        """Start again, like a fenced member or a new process."""
        self.member_id, self.generation_id, self.has, self.wants_to_join = "", -1, set(), True
        self.parked = ""

    def act_on_a_rebalance(self) -> None:
        """Rejoin, required or not."""
        self.wants_to_join = True
        self.act()

    def _join(self) -> None:
        owned: tuple[TopicPartitions, ...] = ()
        if self.cooperative:
            owned = tuple(TopicPartitions(topic=t, partitions=(index,)) for t, index in sorted(self.has))
        else:
            self.has = set()
        said = subscription(*self.topics, owned=owned)
        self.protocols = tuple(
            JoinGroupRequestProtocol(name=each.name, metadata=said) for each in self.protocols
        )
        self.request_join()
        self.parked = "join"
        self._take_join()

    def _take_join(self) -> None:
        response = self.joined()
        if response is None:
            return
        self.parked = ""
        code = ErrorCode(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.restart()
        elif code is ErrorCode.NONE:
            given = {}
            if self.is_leader():
                given = self._handed_out(response)
            self.sync(given)
            self.parked = "sync"
            self._take_sync()
        else:
            assert code is ErrorCode.REBALANCE_IN_PROGRESS, code

    def _handed_out(self, response: JoinGroupResponse) -> dict[str, bytes]:
        """What everybody gets; of what others still own, nobody anything yet."""
        ids = [each.member_id for each in response.members]
        owners = {
            index: member.member_id
            for member in response.members
            for owned in ConsumerProtocolSubscription.decode_versioned(member.metadata).owned_partitions
            for index in owned.partitions
        }
        shares: dict[str, list[int]] = {each: [] for each in ids}
        for index in range(4):
            chosen = ids[index % len(ids)]
            if owners.get(index, chosen) == chosen:
                shares[chosen].append(index)
        return {each: assignment("t", *share) for each, share in shares.items()}

    def _take_sync(self) -> None:
        response = self.synced()
        if response is None:
            return
        self.parked = ""
        code = ErrorCode(response.error_code)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.restart()
        elif code is ErrorCode.NONE:
            given = ConsumerProtocolAssignment.decode_versioned(response.assignment).assigned_partitions
            before = self.has
            self.has = {(each.topic, index) for each in given for index in each.partitions}
            self.wants_to_join = self.cooperative and not before <= self.has
        else:
            assert code is ErrorCode.REBALANCE_IN_PROGRESS, code
            self.wants_to_join = True

    def _live(self) -> None:
        code = self.heartbeat()
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.wants_to_join = True
        elif code is not ErrorCode.NONE:
            assert code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION), code
            self.restart()


def come_to_rest(world: ConsumerWorld, *members: Consumer | Classic) -> None:
    """Let all members act until every partition is assigned, with at most one owner at any time."""
    for _ in range(60):
        for each in members:
            if isinstance(each, Classic):
                each.act()
            elif each.epoch <= 0:
                each.join()
            else:
                each.heartbeat()
            check_owners(members)
        world.sleep(500)
        group = world.core.groups["g"]
        is_whole = set().union(*(each.has for each in members)) == ALL
        if is_whole and group.state.value == "Stable" and group.member_count == len(members):
            return
    raise AssertionError((world.state(), [each.has for each in members]))


def check_owners(members: tuple[Consumer | Classic, ...]) -> None:
    """Check that no partition has two owners."""
    has = [place for each in members for place in each.has]
    assert len(has) == len(set(has)), [each.has for each in members]


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_group_is_upgraded_and_downgraded_member_by_member(cooperative: bool) -> None:
    world = ConsumerWorld(t=4)
    old = [Classic(world, name, cooperative=cooperative) for name in ("a", "b", "c")]
    come_to_rest(world, *old)
    assert world.core.groups["g"].group_type == "classic"
    new: list[Consumer] = []
    for number, each in enumerate(old):
        assert each.leave() is ErrorCode.NONE
        new.append(Consumer(world, f"new-{number}"))
        come_to_rest(world, *old[number + 1 :], *new)
        assert world.core.groups["g"].group_type == "consumer"
        types = [member.member_type for member in world.describe().members]
        assert sorted(types) == [0] * (2 - number) + [1] * (number + 1)
    assert {each.member_type for each in world.describe().members} == {1}
    back = [Classic(world, name, cooperative=cooperative) for name in ("d", "e")]
    for former in new[:-1]:
        former.leave()
    come_to_rest(world, *back, new[-1])
    assert {each.member_type for each in world.describe().members} == {0, 1}
    new[-1].leave()
    come_to_rest(world, *back)
    assert world.core.groups["g"].group_type == "classic"
    assert CauseKind.DOWNGRADED in [each.cause.kind for each in world.noted(RebalanceStarted)]


def mixed(world: ConsumerWorld) -> tuple[Classic, Consumer]:
    """One classic member, and one of the consumer protocol."""
    old, new = Classic(world, "old"), Consumer(world, "new")
    come_to_rest(world, old)
    come_to_rest(world, old, new)
    return old, new


def test_a_consumer_member_of_a_classic_group_gets_partitions_only_after_revocation() -> None:
    world = ConsumerWorld(t=4)
    old, new = Classic(world, "old", cooperative=True), Consumer(world, "new")
    come_to_rest(world, old)
    generation_id = old.generation_id
    assert new.join() is ErrorCode.NONE
    assert (new.epoch, new.has) == (generation_id + 1, set())
    assert old.commit("t", 0, 5) is ErrorCode.NONE  # In its old generation still.
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    old.act()
    old.act()
    assert len(old.has) == 2
    new.heartbeat()
    assert new.has == set()  # It has been told, and has not said yet that it did.
    come_to_rest(world, old, new)
    assert old.generation_id == new.epoch
    assert old.commit("t", 0, 6) is ErrorCode.NONE
    assert world.fetch("t", 0) == 6
    old.generation_id -= 1
    assert old.commit("t", 0, 7) is ErrorCode.ILLEGAL_GENERATION
    assert old.heartbeat() is ErrorCode.ILLEGAL_GENERATION


def test_a_parked_classic_join_is_asked_to_rejoin() -> None:
    world = ConsumerWorld(t=4)
    one, two = Classic(world, "one"), Classic(world, "two")
    come_to_rest(world, one)
    two.act()
    two.act()
    assert two.parked == "join"
    new = Consumer(world, "new")
    assert new.join() is ErrorCode.NONE
    assert two.joined() is not None
    come_to_rest(world, one, two, new)
    assert [len(each.has) for each in (one, two, new)] != [4, 0, 0]


@pytest.mark.parametrize("request_name", ["JoinGroup", "SyncGroup"])
def test_a_classic_member_that_does_not_rejoin_is_removed_at_its_rebalance_timeout(request_name: str) -> None:
    world = ConsumerWorld(t=4)
    old, new = mixed(world)
    other = Consumer(world, "other")
    other.join()
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    if request_name == "SyncGroup":
        old.request_join()
        old.joined()
    for _ in range(13):
        world.sleep(5_000)
        old.heartbeat()
        new.heartbeat()
        other.heartbeat()
    expired = [each for each in world.noted(MemberExpired) if each.member_id == old.member_id]
    assert [request_name in each.reason for each in expired] == [True]
    assert old.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    old.restart()
    settle(new, other)


def test_the_silence_of_a_classic_member_ends_its_own_session_timeout() -> None:
    world = ConsumerWorld(t=4)
    _, new = mixed(world)
    world.sleep(9_000)
    new.heartbeat()
    assert not world.noted(MemberExpired)
    world.sleep(1_500)
    assert len(world.noted(MemberExpired)) == 1
    settle(new)
    assert new.has == ALL


def test_classic_members_in_a_consumer_group_survive_a_restart() -> None:
    world = ConsumerWorld(t=4)
    old, new = mixed(world)
    had = (old.has, new.has)
    world.restart()
    assert old.heartbeat() is ErrorCode.NONE
    assert new.heartbeat() is ErrorCode.NONE
    assert (old.has, new.has) == had
    old.sync()
    response = old.synced()
    assert response is not None
    given = ConsumerProtocolAssignment.decode_versioned(response.assignment).assigned_partitions
    assert {(each.topic, index) for each in given for index in each.partitions} == old.has


@pytest.mark.parametrize("flushes", [1, 2])
def test_an_interrupted_downgrade_continues_after_a_crash(flushes: int) -> None:
    world = ConsumerWorld(t=4)
    old, new = mixed(world)
    new.leave()
    assert world.core.groups["g"].group_type == "consumer"
    if flushes == 2:
        key = next(key for key in world.timers if type(key).__name__ == "JoinTimer")
        del world.timers[key]
        world.do(TimerFired(key))
        assert world.core.groups["g"].group_type == "classic"
    world.restart()
    come_to_rest(world, old)
    assert world.core.groups["g"].group_type == "classic"
    assert old.has == ALL


def test_a_member_that_joins_a_downgraded_group_starts_its_rebalance() -> None:
    world = ConsumerWorld(t=4)
    old, new = mixed(world)
    other = Classic(world, "other")
    come_to_rest(world, old, new, other)
    new.leave()
    for key in [each for each in world.timers if isinstance(each, JoinTimer)]:
        del world.timers[key]
        world.do(TimerFired(key))
    assert world.core.groups["g"].group_type == "classic"
    more = (JoinGroupRequestProtocol(name="roundrobin", metadata=subscription("t")),)
    old.protocols += more
    old.act_on_a_rebalance()
    assert world.state() == "PreparingRebalance"
    other.protocols += more
    come_to_rest(world, old, other)


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("upgrade", True, False), ("downgrade", False, True), ("disabled", False, False)],
)
def test_the_migration_policy_decides_which_conversions_are_allowed(
    policy: str, upgrades: bool, downgrades: bool
) -> None:
    world = ConsumerWorld(
        GroupConfig(group_consumer_assignment_interval_ms=0, group_consumer_migration_policy=policy), t=4
    )
    old = Classic(world, "old")
    come_to_rest(world, old)
    new = Consumer(world, "new")
    code = new.join()
    assert code is (ErrorCode.NONE if upgrades else ErrorCode.GROUP_ID_NOT_FOUND)
    if not upgrades:
        old.leave()
        old.restart()
        assert new.join() is ErrorCode.NONE
    come_to_rest(world, old, new)
    new.leave()
    come_to_rest(world, old)
    assert world.core.groups["g"].group_type == ("classic" if downgrades else "consumer")


@pytest.mark.parametrize("members_max", [2, 3])
def test_a_static_member_changes_its_protocol_under_its_name_both_ways(members_max: int) -> None:
    """Also where the group is full: it takes the place that it has."""
    world = ConsumerWorld(GroupConfig(group_consumer_max_size=members_max), t=4)
    old, other = Classic(world, "old", instance="i"), Classic(world, "other")
    come_to_rest(world, old, other)
    new = Consumer(world, "new", instance="i")
    assert new.join() is ErrorCode.NONE
    assert new.has == old.has
    assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    come_to_rest(world, new, other)
    back = Classic(world, "back", instance="i")
    come_to_rest(world, back, other)
    assert world.core.groups["g"].group_type == "classic"


def test_an_administrator_removes_members_of_either_protocol_by_name_and_by_id() -> None:
    world = ConsumerWorld(t=4)
    old, new, static = Classic(world, "old"), Consumer(world, "new"), Consumer(world, "s", instance="i")
    come_to_rest(world, old)
    come_to_rest(world, old, new, static)
    members = (
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id="new", group_instance_id=None),
        MemberIdentity(member_id="who", group_instance_id=None),
        MemberIdentity(member_id="", group_instance_id="j"),
    )
    request_id = next(world.request_ids)
    world.do(LeaveGroup(request_id, LeaveGroupRequest(group_id="g", member_id="", members=members), 5))
    response = world.answer(request_id, LeaveGroupResponse)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [each.error_code for each in response.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        unknown,
        unknown,
    ]
    assert new.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    come_to_rest(world, old)
    assert world.core.groups["g"].group_type == "classic"


def test_a_classic_member_with_other_protocols_or_invalid_metadata_is_refused() -> None:
    world = ConsumerWorld(t=4)
    mixed(world)
    stranger = Classic(world, "stranger", cooperative=True)
    stranger.request_join()
    answer = stranger.joined()
    assert answer is not None
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stranger.protocols = (JoinGroupRequestProtocol(name="range", metadata=b"\0"),)
    stranger.request_join()
    answer = stranger.joined()
    assert answer is not None
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_of_another_protocol_type_or_with_a_custom_assignors_data_is_not_upgraded() -> None:
    world = ConsumerWorld(AT_ONCE, t=4)
    worker = Client(world, "worker", protocol_type="connect", protocols=("default",))
    worker.join()
    assert Consumer(world, "new").join() is ErrorCode.GROUP_ID_NOT_FOUND
    world = ConsumerWorld(AT_ONCE, t=4)
    old = Client(world, "old")
    old.join()
    world.sleep(3_000)
    old.joined()
    given = ConsumerProtocolAssignment(assigned_partitions=(), user_data=b"mine").encode_versioned()
    old.sync({old.member_id: given})
    new = Consumer(world, "new")
    assert new.join() is ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in (new.last.error_message or "")
    assert old.heartbeat() is ErrorCode.NONE
