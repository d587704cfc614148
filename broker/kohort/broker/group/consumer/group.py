"""A consumer group: its members, its three kinds of epochs, its offsets."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar
from uuid import UUID

import msgspec

from kohort.broker.group.config import GroupConfig
from kohort.broker.group.consumer.member import ConsumerMember, Resolved, preferred_assignor
from kohort.broker.group.epochs.group import EpochGroup
from kohort.broker.group.epochs.members import VERSION_OF_MEMBER_EPOCHS, count_down
from kohort.broker.group.epochs.partitions import Held, Partitions
from kohort.broker.group.group import CONSUMER
from kohort.broker.group.rebalance_facts import Owners
from kohort.broker.group.shard_bytes import ShardBytes
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.offset_commit import OffsetCommitRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class Awaited(msgspec.Struct, frozen=True):
    """The next request of a classic member, with its deadline: JoinGroup or SyncGroup."""

    request: str
    deadline_ms: int


class ConsumerGroup(EpochGroup[ConsumerMember, Partitions]):
    """A group as one shard knows it (Kafka: ConsumerGroup).

    The group epoch grows with each change of what its members read or of the topics that they read; the
    target assignment is made for a group epoch; each member reaches the target's epoch by itself. The topics
    of expressions are logged as well.

    Classic members may live in it: `classic_members` answers their requests.
    """

    group_type: ClassVar[str] = CONSUMER
    logged: ClassVar[tuple[str, ...]] = (*EpochGroup.logged, "regexes")

    __slots__ = (
        "awaited",
        "name_counts",
        "owners",
        "regex_counts",
        "regexes",
        "regexes_seen_ms",
        "topic_names",
    )

    def __init__(self, group_id: str, shard_bytes: ShardBytes | None = None) -> None:
        super().__init__(group_id, shard_bytes)
        self.regexes: dict[str, Resolved] = {}
        # Derived from logged state:
        # The owner of each partition, also while its revocation is pending.
        self.owners: dict[UUID, dict[int, str]] = {}
        self.name_counts: Counter[str] = Counter()
        self.regex_counts: Counter[str] = Counter()
        # Volatile:
        self.awaited: dict[str, Awaited] = {}  # The next requests of classic members, and their deadlines.
        self.regexes_seen_ms: int | None = None
        self.topic_names: dict[UUID, str] = {}  # Of the topics that are read, for people.

    def owners_of(self, members: Mapping[str, ConsumerMember]) -> Owners:
        """Return the owners among these of each partition; an unknown topic is shown by its id."""
        return {
            (self.topic_names.get(topic_id, str(topic_id)), index): member_id
            for member_id, member in members.items()
            for topic_id, indexes in member.assigned.items()
            for index in indexes
        }

    def assignor_name(self, members: Mapping[str, ConsumerMember], config: GroupConfig) -> str:
        """Return the assignor that most of these members ask for."""
        return preferred_assignor(members, config.default_consumer_assignor)

    def owner(self, topic_id: UUID, partition: int) -> str | None:
        """Return the owner of the partition, also while its revocation is pending."""
        return self.owners.get(topic_id, {}).get(partition)

    def regex_topics(self, regex: str | None) -> frozenset[str]:
        """Return the topics that the expression matches, as last resolved."""
        resolved = None if regex is None else self.regexes.get(regex)
        return frozenset() if resolved is None else resolved.topics

    # Logged state; `replaying` alone calls these.

    def drop_member(self, member_id: str) -> None:
        """Forget the member, if it is one."""
        self.awaited.pop(member_id, None)
        super().drop_member(member_id)

    def _topics_read(self) -> frozenset[str]:
        topics = set(self.name_counts)
        for regex in self.regex_counts:
            topics |= self.regex_topics(regex)
        return frozenset(topics)

    def _count(self, member: ConsumerMember) -> None:
        self.name_counts.update(member.topic_names)
        if member.topic_regex:
            self.regex_counts[member.topic_regex] += 1
        for topic_id, index in _each(member):
            self.owners.setdefault(topic_id, {})[index] = member.member_id

    def _uncount(self, member: ConsumerMember) -> None:
        for name in member.topic_names:
            count_down(self.name_counts, name)
        if member.topic_regex:
            count_down(self.regex_counts, member.topic_regex)
        for topic_id, index in _each(member):
            owners = self.owners.get(topic_id)
            if owners is not None and owners.get(index) == member.member_id:
                del owners[index]
                if not owners:
                    del self.owners[topic_id]

    # Offsets.

    def check_commit(self, message: OffsetCommitRequest, version: int, now_ms: int) -> None:
        """Pass a commit that may be kept. Raises: ApiError (Kafka: ConsumerGroup.validateOffsetCommit)."""
        epoch = message.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return
        member = self.member(message.member_id)
        if member.classic is not None:
            _check_generation(member, epoch)
            return
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

    def check_transactional_commit(self, message: TxnOffsetCommitRequest) -> None:
        """Pass a transaction's commit by a member in its epoch. Raises: ApiError."""
        _check_generation(self.member(message.member_id), message.generation_id_or_member_epoch)

    def check_fetch(self, asked: OffsetFetchRequestGroup) -> None:
        """Pass a fetch that may be answered. Raises: ApiError (Kafka: ConsumerGroup.validateOffsetFetch)."""
        if asked.member_id is None and asked.member_epoch < 0:
            return
        member = self.member(asked.member_id or "")
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
