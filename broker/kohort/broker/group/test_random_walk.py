"""Random steps of clients, administrators and time; the invariants hold. By seed."""

import random

import pytest

from kohort.broker.explain.history import bytes_of
from kohort.broker.group import (
    DeleteGroup,
    ExpireOffsets,
    GroupConfig,
    GroupCoordinator,
    GroupState,
    SessionTimer,
    TopicsDeleted,
)
from kohort.broker.group.classic.group import LOST
from kohort.broker.group.test_world import Client, World, assignment, logged_state
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.sync_group import SyncGroupResponse
from tests.repetitions import repetitions

STEPS = 400
GROUPS = ("g", "h")


class Walk:
    """A world in which clients act at random, and what the world owes them is kept in books."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(GroupConfig(offsets_retention_minutes=5, group_max_size=6))
        self.world.flushes_at_once = bool(seed % 2)
        self.clients = [self.new_client(number) for number in range(8)]
        self.asked: set[int] = set()
        self.lost: set[int] = set()
        self.commits: dict[tuple[str, str, int], int] = {}
        self.generations: dict[str, int] = {}

    def new_client(self, number: int) -> Client:
        choose = self.random.choice
        return Client(
            self.world,
            f"c{number}",
            group_id=choose(GROUPS),
            instance=choose((None, None, f"i{number % 3}")),
            protocols=choose((("range",), ("sticky", "range"), ("range", "sticky"))),
            version=choose((0, 3, 5, 9)),
            session_timeout_ms=choose((6_000, 10_000, 30_000)),
            rebalance_timeout_ms=choose((6_000, 20_000, 60_000)),
        )

    def step(self) -> None:
        client = self.random.choice(self.clients)
        dice = self.random.random()
        if dice < 0.97:
            sensible = (self.behave, self.behave, self.behave, self.sleep)
            odd = (self.join, self.sync, self.heartbeat, self.commit)
            self.random.choice(sensible if dice < 0.9 else odd)(client)
        else:
            rare = (self.leave, self.lose, self.renew, self.restart, self.administrate, self.long_sleep)
            self.random.choice(rare)(client)
        if self.random.random() < 0.6:
            self.world.flush()
            self.check()

    def behave(self, client: Client) -> None:
        """Do what a real client would do next."""
        answer = self.world.replies.get(client.request_id)
        if answer is None and client.request_id:
            if client.request_id in self.lost:
                self.join(client)
        elif isinstance(answer, JoinGroupResponse) and answer.error_code == ErrorCode.NONE:
            self.sync(client)
        elif isinstance(answer, SyncGroupResponse) and answer.error_code == ErrorCode.NONE:
            if self.random.random() < 0.5:
                self.commit(client)
            elif self.heartbeat(client) is not ErrorCode.NONE:
                self.join(client)
        else:
            self.join(client)

    def join(self, client: Client) -> None:
        self.learn(client)
        self.asked.add(client.join())

    def learn(self, client: Client) -> None:
        """Hear the last answer, as a client would that sends one request after the other."""
        answer = self.world.replies.get(client.request_id)
        if isinstance(answer, JoinGroupResponse):
            if answer.error_code == ErrorCode.NONE:
                client.joined()
            elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = answer.member_id
            elif answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.member_id = ""
        elif isinstance(answer, SyncGroupResponse) and answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            client.member_id = ""

    def sync(self, client: Client) -> None:
        self.learn(client)
        group = self.world.core.groups.get(client.group_id)
        given = {} if group is None else {each: assignment("t", n) for n, each in enumerate(group.members)}
        self.asked.add(client.sync(given))

    def heartbeat(self, client: Client) -> ErrorCode:
        self.learn(client)
        code = client.heartbeat()
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        return code

    def commit(self, client: Client) -> None:
        self.learn(client)
        partition, offset = self.random.randrange(3), self.random.randrange(1_000)
        if client.commit("t", partition, offset) is ErrorCode.NONE:
            self.commits[client.group_id, "t", partition] = offset

    def sleep(self, _client: Client) -> None:
        self.world.sleep(self.random.randrange(2_000))

    def long_sleep(self, _client: Client) -> None:
        self.world.sleep(self.random.choice((15_000, 70_000, 400_000)))

    def leave(self, client: Client) -> None:
        self.learn(client)
        client.leave("random")

    def lose(self, client: Client) -> None:
        if client.request_id not in self.world.replies:
            self.lost.add(client.request_id)
        client.disappear()

    def renew(self, client: Client) -> None:
        """The client's process dies and another begins, perhaps elsewhere."""
        self.lose(client)
        number = self.clients.index(client)
        self.clients[number] = self.new_client(number)

    def restart(self, _client: Client) -> None:
        """The broker's process dies: parked requests are lost with their connections."""
        self.lost |= self.asked - self.world.replies.keys()
        self.world.restart()
        groups = self.world.core.groups
        self.generations = {group_id: group.generation_id for group_id, group in groups.items()}

    def administrate(self, client: Client) -> None:
        world, group_id = self.world, client.group_id
        choice = self.random.randrange(3)
        if choice == 0:
            world.do(ExpireOffsets())
        elif choice == 1:
            world.do(TopicsDeleted(frozenset({"t"})))
        else:
            request_id = next(world.request_ids)
            world.do(DeleteGroup(request_id, group_id))
            world.answer(request_id, DeletableGroupResult)
        kept = {
            (group_id, topic, partition)
            for group_id, group in world.core.groups.items()
            for topic, offsets in group.offsets.items()
            for partition in offsets
        }
        self.commits = {each: offset for each, offset in self.commits.items() if each in kept}
        self.generations = {each: g for each, g in self.generations.items() if each in world.core.groups}

    def check(self) -> None:
        self.check_parked()
        self.check_offsets()
        self.check_timers()
        for group_id in self.world.core.groups:
            group = self.world.classic(group_id)
            assert group.generation_id >= self.generations.get(group_id, 0), "a generation went back"
            self.generations[group_id] = group.generation_id
            members = list(group.members.values())
            assert group.awaiting_joins == sum(each.awaiting_join is not None for each in members)
            assert (group.leader in group.members) == bool(members)
            static = {each.instance_id: each.member_id for each in members if each.instance_id}
            assert group.static_members == static
            names = [protocol.name for each in members for protocol in each.protocols]
            assert group.protocol_counts == {name: names.count(name) for name in names}
            is_rebalancing = group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
            assert group.is_rebalancing == is_rebalancing
            assert (self.world.journal.ongoing(group_id) is not None) == is_rebalancing
            assert (group.join_deadline_ms is not None) == (group.state is GroupState.PREPARING_REBALANCE)
            assert (group.sync_deadline_ms is not None) == bool(group.pending_syncs)
            assert set(group.pending_syncs) <= set(group.members)
            for member in members:
                assert member.awaiting_join is None or group.state is GroupState.PREPARING_REBALANCE
                assert member.awaiting_sync is None or group.state is GroupState.COMPLETING_REBALANCE
                assert member.is_waiting or member.timer_ms is not None, "nobody would notice its end"
            if group.state is GroupState.STABLE:
                assert group.metadata is not None
                logged = {each.member_id: each.assignment for each in group.metadata.members}
                assert {each.member_id: each.assignment for each in members} == logged

    def check_parked(self) -> None:
        """Every request was answered (once: the world sees to that), is parked, or was lost."""
        parked = {
            request_id
            for group in self.world.core.groups.values()
            for member in group.members.values()
            for request_id in (member.awaiting_join, member.awaiting_sync)
            if request_id not in (None, LOST)
        }
        assert self.asked - self.world.replies.keys() - self.lost <= parked
        assert not parked & self.world.replies.keys()
        assert not parked & self.lost

    def check_offsets(self) -> None:
        for (group_id, topic, partition), offset in self.commits.items():
            assert self.world.core.groups[group_id].offsets[topic][partition].offset == offset

    def check_timers(self) -> None:
        """Check that no timer of a removed member is left."""
        for key in self.world.timers:
            group = self.world.classic(key.group_id)
            if isinstance(key, SessionTimer):
                assert key.member_id in group.members or key.member_id in group.pending_members
        for each in self.world.core.groups.values():
            assert each.member_bytes == sum(member.metadata_bytes for member in each.members.values())
        histories = map(self.world.history, self.world.core.groups)
        kept_bytes = sum(bytes_of(report) for history in histories for report in history)
        assert self.world.room.size_bytes == kept_bytes, "a group that is gone still takes room"

    def settle(self) -> None:
        """Without new requests every group becomes stable, and all requests are answered."""
        self.world.flushes_at_once = True
        self.world.flush()
        self.world.sleep(2_000_000)
        self.check()
        assert {each.state for each in self.world.core.groups.values()} <= {GroupState.EMPTY}
        assert self.asked <= self.world.replies.keys() | self.lost
        fresh = GroupCoordinator(self.world.config)
        for record in self.world.log:
            fresh.replay(record)
        assert logged_state(fresh) == logged_state(self.world.core)


@pytest.mark.parametrize("seed", range(repetitions(30, by_night=200)))
def test_group_invariants_hold_for_any_client_behaviour(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    walk.settle()
