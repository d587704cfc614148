"""A consumer group: its members, its three kinds of epochs, its offsets."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

import msgspec

from kohort.broker.group.config import GroupConfig
from kohort.broker.group.consumer.member import ConsumerMember, preferred_assignor
from kohort.broker.group.epochs.group import EpochGroup
from kohort.broker.group.epochs.partitions import Held, Partitions
from kohort.broker.group.group import CONSUMER
from kohort.broker.group.reports import Owners
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.broker.group.state import GroupState
from kohort.protocol.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kohort.broker.group.classic.member import Member
    from kohort.protocol.messages.offset_commit import OffsetCommitRequest
    from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
    from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

VERSION_OF_MEMBER_EPOCHS = 9


class Resolved(msgspec.Struct, frozen=True):
    """The topics that a regular expression stands for, as of a version of the metadata and a time."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class Awaited(msgspec.Struct, frozen=True):
    """What a classic member has to send next, by when: JoinGroup or SyncGroup."""

    request: str
    deadline_ms: int


class ConsumerGroup(EpochGroup[ConsumerMember]):
    """A group as one shard knows it (Kafka: ConsumerGroup).

    The group epoch grows with each change of what its members read or of the topics that they read; the
    target assignment is made for a group epoch; each member comes to the target's epoch by itself. All of
    that is logged. Volatile are sessions, and what was seen of the metadata.

    `generation_id` is the group epoch; `members` stays empty, so that no classic request finds any: those
    of classic members that live on in it are `classic_members`' to answer.
    """

    group_type: ClassVar[str] = CONSUMER

    __slots__ = (
        "awaited",
        "consumer_members",
        "instances",
        "metadata_hash",
        "metadata_version",
        "name_counts",
        "owners",
        "regex_counts",
        "regexes",
        "regexes_seen_ms",
        "targets",
        "topic_names",
    )

    def __init__(self, group_id: str, shard_bytes: ShardBytes | None = None) -> None:
        super().__init__(group_id, shard_bytes)
        self.protocol_type = CONSUMER
        self.subscribed_topics = frozenset()
        self.metadata_hash = 0
        self.consumer_members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, Resolved] = {}
        # Derived from what is logged:
        self.instances: dict[str, str] = {}  # The static members' ids, by group.instance.id.
        self.owners: dict[UUID, dict[int, str]] = {}  # Who has each partition, or has yet to give it up.
        self.name_counts: Counter[str] = Counter()
        self.regex_counts: Counter[str] = Counter()
        # Volatile:
        self.awaited: dict[str, Awaited] = {}  # What classic members have to send next, and until when.
        self.generation_id = 1  # Its first members are in epoch 2, as Apache Kafka has it from 4.3 on.
        self.metadata_version: int | None = None  # Of what was last compared with `metadata_hash`.
        self.regexes_seen_ms: int | None = None
        self.topic_names: dict[UUID, str] = {}  # Of the topics that are read, for people.

    @property
    def epoch_members(self) -> Mapping[str, ConsumerMember]:
        """The members, by their ids."""
        return self.consumer_members

    def owners_of(self, members: Mapping[str, ConsumerMember]) -> Owners:
        """Return who of these has which partition; a topic that was not seen yet goes by its id."""
        return {
            (self.topic_names.get(topic_id, str(topic_id)), index): member_id
            for member_id, member in members.items()
            for topic_id, indexes in member.assigned.items()
            for index in indexes
        }

    def assignor_name(self, members: Mapping[str, ConsumerMember], config: GroupConfig) -> str:
        """Return the assignor that most of these members ask for."""
        return preferred_assignor(members, config.default_consumer_assignor)

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """Return the member with that group.instance.id."""
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.consumer_members[member_id]

    def consumer_member(self, member_id: str) -> ConsumerMember:
        """Return the member. Raises: ApiError UNKNOWN_MEMBER_ID."""
        member = self.consumer_members.get(member_id)
        if member is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def owner(self, topic_id: UUID, partition: int) -> str | None:
        """Return who has the partition, or has yet to say that it has given it up."""
        return self.owners.get(topic_id, {}).get(partition)

    def regex_topics(self, regex: str | None) -> frozenset[str]:
        """Return the topics that the expression stands for, as far as it was resolved."""
        resolved = None if regex is None else self.regexes.get(regex)
        return frozenset() if resolved is None else resolved.topics

    # What is logged; `replaying` alone calls these.

    def put_member(self, member: ConsumerMember) -> None:
        """Let the member stand as logged."""
        former = self.consumer_members.get(member.member_id)
        if former is not None:
            self._forget_subscription(former)
            self._release(former)
        self.consumer_members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self._hold(member.metadata_bytes)
        self.name_counts.update(member.topic_names)
        if member.topic_regex:
            self.regex_counts[member.topic_regex] += 1
        for topic_id, index in _each(member):
            self.owners.setdefault(topic_id, {})[index] = member.member_id
        self.refresh()

    def drop_member(self, member_id: str) -> None:
        """Forget the member, if it is one."""
        member = self.consumer_members.pop(member_id, None)
        if member is None:
            return
        self._forget_subscription(member)
        self._release(member)
        self.sessions.pop(member_id, None)
        self.awaited.pop(member_id, None)
        self.revocations.pop(member_id, None)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member_id:
            del self.instances[member.instance_id]
        self.refresh()

    def refresh(self) -> None:
        """Derive anew which topics are read, and in which state the group is."""
        topics = set(self.name_counts)
        for regex in self.regex_counts:
            topics |= self.regex_topics(regex)
        self.subscribed_topics = frozenset(topics)
        self.state = self._state()

    def _state(self) -> GroupState:
        if not self.consumer_members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        epoch = self.assignment_epoch
        if all(each.is_reconciled(epoch) for each in self.consumer_members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def _forget_subscription(self, member: ConsumerMember) -> None:
        self._hold(-member.metadata_bytes)
        for name in member.topic_names:
            _count_down(self.name_counts, name)
        if member.topic_regex:
            _count_down(self.regex_counts, member.topic_regex)

    def _release(self, member: ConsumerMember) -> None:
        for topic_id, index in _each(member):
            owners = self.owners.get(topic_id)
            if owners is not None and owners.get(index) == member.member_id:
                del owners[index]
                if not owners:
                    del self.owners[topic_id]

    # Offsets.

    def committer(self, message: "OffsetCommitRequest", version: int) -> "Member | None":
        """Pass a commit that may be kept. Raises: ApiError (Kafka: ConsumerGroup.validateOffsetCommit)."""
        epoch = message.generation_id_or_member_epoch
        if epoch < 0 and not self.consumer_members:
            return None
        member = self.consumer_member(message.member_id)
        if member.classic is not None:
            _check_generation(member, epoch)
            return None
        if version < VERSION_OF_MEMBER_EPOCHS:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if epoch != member.epoch:
            held = (member.assigned, member.revoking)
            if epoch > member.epoch or not all(
                _has_since(held, topic.topic_id, each.partition_index, epoch)
                for topic in message.topics
                for each in topic.partitions
            ):
                raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)
        return None

    def check_transactional(self, message: "TxnOffsetCommitRequest") -> None:
        """Pass a transaction's commit by a member in its epoch. Raises: ApiError."""
        _check_generation(self.consumer_member(message.member_id), message.generation_id_or_member_epoch)

    def check_fetch(self, asked: "OffsetFetchRequestGroup") -> None:
        """Pass a fetch that may be answered. Raises: ApiError (Kafka: ConsumerGroup.validateOffsetFetch)."""
        if asked.member_id is None and asked.member_epoch < 0:
            return
        member = self.consumer_member(asked.member_id or "")
        if member.classic is not None:
            _check_generation(member, asked.member_epoch)
        if asked.member_epoch != member.epoch:
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)


def _has_since(held: tuple[Held, ...], topic_id: UUID, partition: int, epoch: int) -> bool:
    """Return whether the partition was the member's in that earlier epoch, and still is (KIP-1251)."""
    return any(epoch >= each[topic_id].get(partition, epoch + 1) for each in held if topic_id in each)


def _each(member: ConsumerMember) -> Iterator[tuple[UUID, int]]:
    for held in (member.assigned, member.revoking):
        for topic_id, partitions in held.items():
            for index in partitions:
                yield topic_id, index


def _count_down(counts: "Counter[str]", name: str) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]


Targets = Mapping[str, Partitions]
"""What each member shall have, by its id."""
