"""The books: what was promised to whom. Each entry is checked when it is made, and after every load.

The rules are stated here once more, from the protocol and not from the core's code.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kohort.broker.coordination.group_shards import GroupShard
from kohort.broker.group import Decision, GroupState, coordinator_partition
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.subscriptions import assigned_partitions
from kohort.broker.group.test_world import Logged, logged_state
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kohort.protocol.offsets_topic import GroupMetadataKey, OffsetCommitKey
from kohort.protocol.records import ControlType, iterate_records, read_control_type, read_header
from kohort.protocol.schema import Message
from tests.simulation.network import Sent
from tests.simulation.removals import Key, Removals

NOBODY = -1
LOADS_PER_REPLAY = 3
ABSENT = ""  # Stands for the token where there is no offset: no commit has it.
LIVES = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)

GroupOf = Callable[[str], AnyGroup | None]


class Beside(Protocol):
    """Who keeps books of requests that these know nothing of."""

    def asked(self, sent: Sent, groups: GroupOf) -> None:
        """A request reaches its handler."""
        ...

    def answered(self, sent: Sent, message: Message) -> None:
        """An answer goes out."""
        ...

    def loaded(self) -> None:
        """A shard of groups serves, from what its log held."""
        ...


class Violation(BaseException):  # Past every supervisor of the broker: it is about them too.
    """Something that must hold does not."""


class Kept:
    """What is known of one partition's committed offset: which writes were asked for, what was promised."""

    __slots__ = ("offset", "orders", "promised")

    def __init__(self) -> None:
        self.orders: dict[str, int] = {}  # By the commit's token, which is its metadata.
        self.promised = NOBODY  # The order of the newest write that somebody was told of.
        self.offset = -1

    def promise(self, order: int) -> None:
        """Somebody knows of that write: from now on it, or a later one, must be found."""
        self.promised = order
        self.orders = {token: each for token, each in self.orders.items() if each >= order}


class Books:
    """What every request asked for, and what it was told."""

    def __init__(self, shards: int, note: Callable[[str], None], now_ms: Callable[[], int]) -> None:
        self.checked: Counter[str] = Counter()
        self.beside: list[Beside] = []
        self._shards = shards
        self._note = note
        self._removals = Removals(now_ms)
        self._order = 0
        self._loads = 0
        self._kept: dict[Key, Kept] = {}
        self._floors: dict[Sent, dict[Key, int]] = {}
        self._gone: set[tuple[str, str]] = set()  # Who was told that it is no member (any more).
        self._synced: dict[str, int] = {}  # The newest generation that was handed out, by group.
        self._forgotten: dict[str, int] = {}  # What had been asked when the group was deleted last, by group.
        self._owners: dict[tuple[str, int], dict[tuple[str, int], str]] = {}
        self._parts: dict[tuple[str, int, str], bytes] = {}
        self._places: dict[str, int] = {}  # The shard by group id.
        self._askers: dict[type[Message], Callable[..., None]] = {
            HeartbeatRequest: self._heartbeat_asked,
            OffsetCommitRequest: self._commit_asked,
            OffsetFetchRequest: self._fetch_asked,
        }
        self._checks: dict[type[Message], Callable[..., None]] = {
            HeartbeatResponse: self._beaten,
            JoinGroupResponse: self._joined,
            SyncGroupResponse: self._synced_answer,
            OffsetCommitResponse: self._committed,
            OffsetFetchResponse: self._fetched,
            LeaveGroupResponse: self._left,
            DeleteGroupsResponse: self._groups_deleted,
            OffsetDeleteResponse: self._offsets_deleted,
        }

    def expect(self, rule: str, holds: bool, detail: Callable[[], str]) -> None:
        """Count that `rule` was looked at. Raises: Violation where it does not hold."""
        self.checked[rule] += 1
        if not holds:
            raise Violation(f"{rule}: {detail()}")

    # -- asked --------------------------------------------------------------------------------------------

    def asked(self, sent: Sent, groups: GroupOf) -> None:
        """A request reaches its handler: note what its answer may be."""
        self._order += 1
        sent.order = self._order
        take = self._askers.get(type(sent.message))
        for each in self.beside:
            each.asked(sent, groups)
        if take is not None:
            take(sent, sent.message, groups)

    def _heartbeat_asked(self, sent: Sent, message: HeartbeatRequest, groups: GroupOf) -> None:
        group = groups(message.group_id)
        sent.allowed = group is None or _is_current(group, message.member_id, message.generation_id)

    def _commit_asked(self, sent: Sent, message: OffsetCommitRequest, groups: GroupOf) -> None:
        sent.allowed = self._may_commit(message, groups(message.group_id))
        for key, token, _ in _writes(message):
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = Kept()
            kept.orders[token] = sent.order

    def _fetch_asked(self, sent: Sent, message: OffsetFetchRequest, _groups: GroupOf) -> None:
        self._floors[sent] = {key: self._kept[key].promised for key in _wanted(message) if key in self._kept}

    def _may_commit(self, message: OffsetCommitRequest, group: AnyGroup | None) -> bool:
        generation_id = message.generation_id_or_member_epoch
        if generation_id < 0:
            return group is None or not group.members
        return (
            group is not None
            and _is_current(group, message.member_id, generation_id)
            and group.state is not GroupState.COMPLETING_REBALANCE
            and (message.group_id, message.member_id) not in self._gone
            and generation_id >= self._synced.get(message.group_id, 0)
        )

    # -- answered -----------------------------------------------------------------------------------------

    def answered(self, sent: Sent, message: Message) -> None:
        """An answer goes out: check it against what was asked, and note what it promises."""
        self._note(f"{sent.client_id} {sent.api.name} {sent.correlation_id} {_code(message)}")
        self.expect("every request is answered at most once", sent.reply is None, lambda: f"{sent.message}")
        for each in self.beside:
            each.answered(sent, message)
        check = self._checks.get(type(message))
        if check is not None:
            check(sent, message)

    def _beaten(self, sent: Sent, message: HeartbeatResponse) -> None:
        asked = sent.message
        assert isinstance(asked, HeartbeatRequest)
        code = message.error_code
        alive = code in LIVES
        self.expect("only members of this generation live", sent.allowed or not alive, lambda: f"{asked}")
        if alive:
            self._removals.alive(asked.group_id)
        self._note_gone(asked.group_id, asked.member_id, code)

    def _joined(self, sent: Sent, message: JoinGroupResponse) -> None:
        if message.members:
            rule = "only the leader is told who else is in"
            self.expect(rule, message.leader == message.member_id, lambda: f"{message}")

    def _note_gone(self, group_id: str, member_id: str, code: int) -> None:
        if code in OUT:
            self._gone.add((group_id, member_id))

    def _synced_answer(self, sent: Sent, message: SyncGroupResponse) -> None:
        asked = sent.message
        assert isinstance(asked, SyncGroupRequest)
        self._note_gone(asked.group_id, asked.member_id, message.error_code)
        if message.error_code != ErrorCode.NONE:
            return
        group_id, generation_id = asked.group_id, asked.generation_id
        self._removals.alive(group_id)
        if sent.order <= self._forgotten.get(group_id, NOBODY):
            return  # The group was deleted while this answer waited for the disk.
        owner = asked.group_instance_id or asked.member_id
        part = self._parts.setdefault((group_id, generation_id, owner), message.assignment)
        rule = "a generation's assignment never changes"
        self.expect(rule, part == message.assignment, lambda: f"{owner} in {group_id}, {generation_id}")
        owners = self._owners.setdefault((group_id, generation_id), {})
        for partition in assigned_partitions(message.assignment):
            first = owners.setdefault(partition, owner)
            rule = "no partition has two owners in one generation"
            self.expect(
                rule,
                first == owner,
                lambda first=first, partition=partition: f"{partition} of {group_id}: {first} and {owner}",  # type: ignore[misc]  # bound defaults
            )
        self._synced[group_id] = max(generation_id, self._synced.get(group_id, 0))

    def _committed(self, sent: Sent, message: OffsetCommitResponse) -> None:
        asked = sent.message
        assert isinstance(asked, OffsetCommitRequest)
        codes = {
            (asked.group_id, topic.name, each.partition_index): each.error_code
            for topic in message.topics
            for each in topic.partitions
        }
        for key, _, offset in _writes(asked):
            if codes[key] != ErrorCode.NONE:
                self._note_gone(asked.group_id, asked.member_id, codes[key])
                continue
            self.expect("a fenced member commits nothing", sent.allowed, lambda: f"{asked}")
            kept = self._kept[key]
            self._removals.committed(key, sent.arrived_ms)
            if sent.order > kept.promised:
                rule = "a group's offsets never go back"
                self.expect(rule, offset >= kept.offset, lambda kept=kept: f"{kept.offset} before {asked}")  # type: ignore[misc]  # a bound default
                kept.offset = offset
                kept.promise(sent.order)

    def _fetched(self, sent: Sent, message: OffsetFetchResponse) -> None:
        floors = self._floors.pop(sent)
        for group in message.groups:
            for topic in group.topics:
                for each in topic.partitions:
                    key = (group.group_id, topic.name, each.partition_index)
                    if key in floors:
                        self._check_kept(key, each.metadata or "", floors[key])
                        order = self._kept[key].orders.get(each.metadata or "", NOBODY)
                        if order > self._kept[key].promised:  # Whoever was shown it counts on it.
                            self._kept[key].promise(order)
                            self._kept[key].offset = each.committed_offset

    # -- taken away -----------------------------------------------------------------------------------------

    def decided(self, shard: GroupShard, command: object, decision: Decision) -> None:
        """The core has decided: what it takes away has a reason, and is a write like any other."""
        for record in decision.records:
            key = record.key
            if record.value is not None or not isinstance(key, OffsetCommitKey | GroupMetadataKey):
                continue
            group = shard.core.groups[key.group]
            if isinstance(key, OffsetCommitKey):
                rule = "offsets go only for a reason"
                may_go = self._removals.may_go(command, key, group)
                self.expect(rule, may_go, lambda key=key: f"{key} by {command}")  # type: ignore[misc]  # a bound default
                self._note_removal((key.group, key.topic, key.partition))
            else:
                rule = "a group with members is not deleted"
                self.expect(rule, not group.members, lambda key=key: f"{key} by {command}")  # type: ignore[misc]  # a bound default
                self._forget_generations(key.group)

    def _note_removal(self, key: Key) -> None:
        self._order += 1
        if key in self._kept:
            self._kept[key].orders[ABSENT] = self._order

    def _forget_generations(self, group_id: str) -> None:
        """A group that comes back counts its generations anew."""
        self._synced.pop(group_id, None)
        self._forgotten[group_id] = self._order
        self._owners = {each: owners for each, owners in self._owners.items() if each[0] != group_id}
        self._parts = {each: part for each, part in self._parts.items() if each[0] != group_id}

    def _left(self, sent: Sent, message: LeaveGroupResponse) -> None:
        asked = sent.message
        assert isinstance(asked, LeaveGroupRequest)
        for each in message.members:
            if each.error_code == ErrorCode.NONE:
                self._gone.add((asked.group_id, each.member_id))

    def _groups_deleted(self, sent: Sent, message: DeleteGroupsResponse) -> None:
        deleted = {each.group_id for each in message.results if each.error_code == ErrorCode.NONE}
        for key in self._kept:
            if key[0] in deleted:
                self._removed(sent, key)

    def _offsets_deleted(self, sent: Sent, message: OffsetDeleteResponse) -> None:
        asked = sent.message
        assert isinstance(asked, OffsetDeleteRequest)
        for topic in message.topics:
            for each in topic.partitions:
                if not message.error_code and each.error_code == ErrorCode.NONE:
                    self._removed(sent, (asked.group_id, topic.name, each.partition_index))

    def _removed(self, sent: Sent, key: Key) -> None:
        """Somebody is told that an offset is gone: from now on it must not be found."""
        kept = self._kept.get(key)
        if kept is None:
            return
        order = kept.orders.get(ABSENT, NOBODY)
        holds = order >= kept.promised or kept.promised > sent.order
        self.expect("what is deleted is gone", holds, lambda: f"{key} after {sent.message}")
        if order > kept.promised:
            kept.promise(order)
            kept.offset = -1

    # -- after a load ---------------------------------------------------------------------------------------

    def loaded(self, shard: GroupShard) -> None:
        """Check what a shard found in its log: everything promised is there. Nobody is gone for good."""
        self._gone = {each for each in self._gone if self._shard_of(each[0]) != shard.index}
        for each in self.beside:
            each.loaded()
        self._note(f"shard {shard.index} loaded: {sorted(shard.core.groups)}")
        self.check_offsets(shard.index, shard.core.groups)
        self._loads += 1
        if self._loads % LOADS_PER_REPLAY == 0:
            rule = "a load finds what every record together says"
            same = logged_state(shard.core) == replayed_state(shard)
            self.expect(rule, same, lambda: f"shard {shard.index}")

    def check_offsets(self, index: int, groups: Mapping[str, AnyGroup]) -> None:
        """Check that all promised offsets of that shard are there."""
        for key, kept in self._kept.items():
            group_id, topic, partition = key
            if kept.promised != NOBODY and self._shard_of(group_id) == index:
                group = groups.get(group_id)
                value = None if group is None else group.offsets.get(topic, {}).get(partition)
                self._check_kept(key, "" if value is None else value.metadata, kept.promised)

    def _check_kept(self, key: Key, token: str, floor: int) -> None:
        order = self._kept[key].orders.get(token, NOBODY)
        rule = "what was acknowledged survives"
        self.expect(rule, order >= floor, lambda: f"{key}: found {token!r} ({order}), promised {floor}")

    def _shard_of(self, group_id: str) -> int:
        place = self._places.get(group_id)
        if place is None:
            place = self._places[group_id] = coordinator_partition(group_id, self._shards)
        return place


def replayed_state(shard: GroupShard) -> Logged:
    """Return what a follower would know, which replays every record: a load looks at the newest alone."""
    assert shard._partition is not None
    fresh = shard.machine.new_core()
    for batch in shard._partition.log.read_batches():
        header = read_header(batch)
        if header.is_control:
            kinds = {read_control_type(each.key) for each in iterate_records(batch)}
            fresh.end_pending(header.producer_id, ControlType.COMMIT in kinds)
            continue
        for each in iterate_records(batch):
            record = shard.machine.decode(each.key or b"", each.value)
            assert record is not None, "this broker writes no others"
            if header.is_transactional:
                fresh.replay_pending(header.producer_id, record)
            else:
                fresh.replay(record)
    return logged_state(fresh)


def _code(message: Message) -> int | None:
    """Return the error code of an answer that has one as a whole."""
    return getattr(message, "error_code", None)


def _is_current(group: AnyGroup, member_id: str, generation_id: int) -> bool:
    return member_id in group.members and generation_id == group.generation_id


def _writes(message: OffsetCommitRequest) -> Iterable[tuple[Key, str, int]]:
    """Yield what a commit writes: where, its token, the offset."""
    for topic in message.topics:
        for each in topic.partitions:
            key = (message.group_id, topic.name, each.partition_index)
            yield key, each.committed_metadata or "", each.committed_offset


def _wanted(message: OffsetFetchRequest) -> Iterable[Key]:
    for group in message.groups:
        for topic in group.topics or ():
            for index in topic.partition_indexes:
                yield group.group_id, topic.name, index
