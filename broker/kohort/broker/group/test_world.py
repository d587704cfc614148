"""A world for the core's tests: virtual time, a log, a follower that replays it, and clients."""

from collections.abc import Callable
from itertools import count
from typing import TypeVar

from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.history import HistoryRoom
from kohort.broker.explain.journal import RebalanceJournal
from kohort.broker.explain.views import GroupView, view_of
from kohort.broker.group import (
    CancelTimer,
    Command,
    ConnectionClosed,
    Decision,
    Effect,
    Event,
    GroupConfig,
    GroupCoordinator,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Note,
    OffsetCommit,
    OffsetFetch,
    Record,
    Reply,
    RequestLost,
    SetTimer,
    SyncGroup,
    TimerFired,
    TimerKey,
)
from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.group.metadata import Metadata
from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kohort.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kohort.protocol.offsets_topic import (
    GroupMetadataRecord,
    GroupMetadataValue,
    ModernGroupRecord,
    OffsetCommitRecord,
    OffsetCommitValue,
    decode_record,
    encode_key,
    encode_value,
)
from kohort.protocol.schema import Message

E = TypeVar("E", bound=Event)
M = TypeVar("M", bound=Message)


def subscription(*topics: str, owned: tuple[TopicPartitions, ...] = ()) -> bytes:
    return ConsumerProtocolSubscription(topics=topics, owned_partitions=owned).encode_versioned()


def assignment(topic: str, *partitions: int) -> bytes:
    given = (TopicPartitions(topic=topic, partitions=partitions),)
    return ConsumerProtocolAssignment(assigned_partitions=given).encode_versioned()


def through_the_log(record: Record) -> Record:
    """The record as a log would give it back."""
    found = decode_record(
        encode_key(record.key), None if record.value is None else encode_value(record.value)
    )
    assert isinstance(found, OffsetCommitRecord | GroupMetadataRecord | ModernGroupRecord)
    return Record(found.key, found.value)


Logged = dict[str, tuple[GroupMetadataValue | None, dict[tuple[str, int], OffsetCommitValue]]]


def logged_state(core: GroupCoordinator) -> Logged:
    """What the log says of each group, as that core knows it."""
    state: Logged = {}
    for group_id, group in core.groups.items():
        offsets = {(topic, index): v for topic, each in group.offsets.items() for index, v in each.items()}
        metadata = group.metadata if isinstance(group, ClassicGroup) else None
        if metadata is not None or offsets:
            state[group_id] = (metadata, offsets)
    return state


def all_logged(core: GroupCoordinator) -> dict[str, object]:
    """A copy of all that the log says of groups, as that core knows it; nothing where it says nothing."""
    found: dict[str, object] = {}
    for group_id, group in core.groups.items():
        if not (isinstance(group, ClassicGroup) and group.metadata is None and not group.offsets):
            found[group_id] = [group.group_type, *(_copied(getattr(group, each)) for each in group.logged)]
    found[""] = _copied(core._groups.pending._by_producer)
    return found


def _copied(value: object) -> object:
    return {key: _copied(each) for key, each in value.items()} if isinstance(value, dict) else value


class CheckedCoordinator(GroupCoordinator):
    """A core that sees to it that `handle` changes nothing that is logged: only `replay` does."""

    def handle(self, command: object, now_ms: int) -> Decision:
        before = all_logged(self)
        decision = super().handle(command, now_ms)
        assert all_logged(self) == before, f"handling {command} has changed what is logged"
        return decision


class World:
    """A shell whose disk is a list. With `flushes_at_once` off, records and effects wait for `flush`."""

    def __init__(self, config: GroupConfig | None = None) -> None:
        self.flushes_at_once = True
        self.staged: list[Record] = []
        self.owed: list[Effect] = []
        self.versions: dict[int, int] = {}
        self.config = config or GroupConfig()
        self.metadata: Metadata | None = None
        self.may_describe: Callable[[str], bool] = lambda topic: True
        self.room = HistoryRoom()
        self.core = self.new_core()
        self.follower = GroupCoordinator(self.config)
        self.now_ms = 1_000_000
        self.log: list[Record] = []
        self.timers: dict[TimerKey, tuple[int, int]] = {}
        self.replies: dict[int, Message] = {}
        self.events: list[Event] = []
        self.request_ids = count(1)
        self.member_numbers = count(1)

    def new_core(self) -> GroupCoordinator:
        """A core without groups, and its journal."""
        self.journal = RebalanceJournal(self.room)
        return CheckedCoordinator(self.config, journal=self.journal)

    def classic(self, group_id: str = "g") -> ClassicGroup:
        """The group, which is a classic one."""
        group = self.core.find(group_id, ClassicGroup)
        assert group is not None
        return group

    def do(self, command: Command) -> Decision:
        """What a shell does with a command."""
        if isinstance(command, JoinGroup | LeaveGroup | OffsetCommit):
            self.versions[command.request_id] = command.version
        return self.run(self.core.handle(command, self.now_ms))

    def run(self, decision: Decision) -> Decision:
        for record in decision.records:
            self.core.replay(record)
        self.staged += decision.records
        self.owed += decision.effects
        if self.flushes_at_once:
            self.flush()
        return decision

    def flush(self) -> None:
        """Log the staged records, then run the pending effects."""
        for record in self.staged:
            self.log.append(through_the_log(record))
            self.follower.replay(self.log[-1])
        self.staged.clear()
        for effect in self.owed:
            self.perform(effect)
        self.owed.clear()
        assert logged_state(self.core) == logged_state(self.follower)

    def perform(self, effect: Effect) -> None:
        """Do one effect; every answer must be one that can be sent in the version of its request."""
        match effect:
            case Reply(request_id, message):
                assert request_id not in self.replies, "answered twice"
                self.replies[request_id] = message
                declared = message.declaration()
                if declared.api_key >= 0:
                    newest = declared.versions.highest
                    message.encode(self.versions.get(request_id, newest))
            case SetTimer(key, deadline_ms):
                self.timers[key] = (deadline_ms, next(self.request_ids))
            case CancelTimer(key):
                self.timers.pop(key, None)
            case Note(event):
                self.events.append(event)

    def sleep(self, ms: int) -> None:
        """Let time pass; timers fire on their way."""
        until_ms = self.now_ms + ms
        while self.timers:
            key, (deadline_ms, _) = min(self.timers.items(), key=lambda each: each[1])
            if deadline_ms > until_ms:
                break
            del self.timers[key]
            self.now_ms = max(self.now_ms, deadline_ms)
            self.do(TimerFired(key))
        self.now_ms = until_ms

    def restart(self) -> None:
        """Another process takes over from the log; unflushed records never existed."""
        self.staged.clear()
        self.owed.clear()
        self.core.give_up(ErrorCode.NOT_COORDINATOR)
        self.core = self.new_core()
        self.timers.clear()
        for record in self.log:
            self.core.replay(record)
        self.run(self.core.loaded(self.now_ms))

    def answer(self, request_id: int, kind: type[M]) -> M:
        self.flush()
        message = self.replies[request_id]
        assert isinstance(message, kind)
        return message

    def history(self, group_id: str = "g") -> list[RebalanceReport]:
        """The past rebalances of the group."""
        return self.journal.of(group_id).history

    def view(self, group_id: str = "g") -> GroupView:
        """The group for people."""
        return view_of(self.core.groups[group_id], self.journal.of(group_id), self.now_ms)

    def noted(self, kind: type[E]) -> list[E]:
        return [each for each in self.events if isinstance(each, kind)]

    def state(self, group_id: str = "g") -> str:
        return self.core.groups[group_id].state.value

    def fetch(self, topic: str, partition: int, group_id: str = "g") -> int:
        request_id = next(self.request_ids)
        self.do(OffsetFetch(request_id, OffsetFetchRequestGroup(group_id=group_id, topics=None)))
        for each in self.answer(request_id, OffsetFetchResponseGroup).topics:
            if each.name == topic:
                for found in each.partitions:
                    if found.partition_index == partition:
                        return found.committed_offset
        return -1


class Client:
    """A consumer as the wire sees it: it keeps the member id and the generation that it was given."""

    def __init__(
        self,
        world: World,
        name: str = "c",
        *,
        group_id: str = "g",
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        topics: tuple[str, ...] = ("t",),
        version: int = 9,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        protocol_type: str = "consumer",
    ) -> None:
        self.world = world
        self.name = name
        self.group_id = group_id
        self.instance = instance
        self.topics = topics
        self.protocols = tuple(
            JoinGroupRequestProtocol(name=each, metadata=subscription(*topics)) for each in protocols
        )
        self.version = version
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocol_type = protocol_type
        self.member_id = ""
        self.generation_id = -1
        self.protocol_name = protocols[0] if protocols else ""
        self.request_id = 0

    def request_join(self, reason: str | None = None) -> int:
        """Send one JoinGroup; its answer may come later."""
        world = self.world
        self.request_id = next(world.request_ids)
        message = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=self.protocols,
            reason=reason,
        )
        fresh_id = f"{self.instance or self.name}-{next(world.member_numbers)}"
        world.do(
            JoinGroup(
                self.request_id,
                message,
                self.version,
                fresh_id,
                self.name,
                "/127.0.0.1",
                world.metadata,
                world.may_describe,
            )
        )
        return self.request_id

    def join(self, reason: str | None = None) -> int:
        """Join, with the second step where one is asked for (KIP-394)."""
        self.request_join(reason)
        response = self.joined()
        if response is not None and response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.request_join(reason)
        return self.request_id

    def joined(self) -> JoinGroupResponse | None:
        """The answer to the last join, or None as long as it is parked."""
        message = self.world.replies.get(self.request_id)
        if message is None:
            return None
        assert isinstance(message, JoinGroupResponse)
        if message.error_code == ErrorCode.NONE:
            self.member_id = message.member_id
            self.generation_id = message.generation_id
            self.protocol_name = message.protocol_name or ""
        return message

    def is_leader(self) -> bool:
        response = self.joined()
        return response is not None and response.leader == response.member_id

    def sync(self, given: dict[str, bytes] | None = None, **fields: str) -> int:
        self.request_id = next(self.world.request_ids)
        message = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=fields.get("protocol_type", self.protocol_type),
            protocol_name=fields.get("protocol_name", self.protocol_name),
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=part)
                for member_id, part in (given or {}).items()
            ),
        )
        self.world.do(SyncGroup(self.request_id, message, 5, self.world.metadata))
        return self.request_id

    def synced(self) -> SyncGroupResponse | None:
        message = self.world.replies.get(self.request_id)
        assert message is None or isinstance(message, SyncGroupResponse)
        return message

    def heartbeat(self, generation_id: int | None = None) -> ErrorCode:
        request_id = next(self.world.request_ids)
        message = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id if generation_id is None else generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        self.world.do(Heartbeat(request_id, message))
        return ErrorCode(self.world.answer(request_id, HeartbeatResponse).error_code)

    def commit(self, topic: str, partition: int, offset: int, metadata: str | None = None) -> ErrorCode:
        request_id = next(self.world.request_ids)
        asked = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        message = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=(OffsetCommitRequestTopic(name=topic, partitions=(asked,)),),
        )
        self.world.do(OffsetCommit(request_id, message, 9))
        response = self.world.answer(request_id, OffsetCommitResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def leave(self, reason: str | None = None) -> ErrorCode:
        request_id = next(self.world.request_ids)
        leaver = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance, reason=reason)
        message = LeaveGroupRequest(group_id=self.group_id, member_id="", members=(leaver,))
        self.world.do(LeaveGroup(request_id, message, 5))
        response = self.world.answer(request_id, LeaveGroupResponse)
        return ErrorCode(response.members[0].error_code)

    def lose_connection(self) -> None:
        """The connection closes while nothing is parked."""
        self.world.do(ConnectionClosed(self.group_id, self.member_id))

    def disappear(self) -> None:
        """The connection breaks while the last request is parked."""
        self.world.do(RequestLost(self.request_id))


def stable_group(world: World, *clients: Client) -> None:
    """Bring the clients into one stable generation, partition n of topic t to the n-th."""
    for client in clients:
        client.join()
    world.sleep(world.config.group_initial_rebalance_delay_ms)
    for client in clients:
        response = client.joined()
        while response is None:
            world.sleep(world.config.group_initial_rebalance_delay_ms)
            response = client.joined()
        assert response.error_code == ErrorCode.NONE, response
    sync_all(world, *clients)


def sync_all(world: World, *clients: Client) -> None:
    for client in clients:
        client.joined()
    leader = next(each for each in clients if each.is_leader())
    given = {each.member_id: assignment("t", number) for number, each in enumerate(clients)}
    for client in clients:
        if client is not leader:
            client.sync()
    leader.sync(given)
    for client in clients:
        response = client.synced()
        assert response is not None
        assert response.error_code == ErrorCode.NONE, response
    assert world.state(leader.group_id) == "Stable"


def test_two_clients_make_a_stable_group() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    stable_group(world, one, two)
    assert one.heartbeat() is ErrorCode.NONE
    assert two.commit("t", 1, 42) is ErrorCode.NONE
    assert world.fetch("t", 1) == 42
    assert one.generation_id == two.generation_id == 1
