"""A consumer's position in each of its partitions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from kohort.client.metadata import TopicMetadata
from kohort.client.retry import backoff_ms
from kohort.client.values import OffsetAndMetadata, TopicPartition
from kohort.protocol.schema import ZERO_UUID

RESET = "reset"  # By auto_offset_reset, whatever is committed.
NOT_COMMITTED = "not committed"  # By auto_offset_reset as well.
NO_EPOCH = -1
TOPICS_BEFORE_MAX = 10


class Fetching:
    """The fetches of a stand from one offset on; another object replaces it when they are invalid.

    The fetching thread owns it, and can fetch again independently of the reader.
    """

    __slots__ = ("chunks_fetched", "chunks_used", "offset")

    def __init__(self, offset: int | None) -> None:
        self.offset = offset  # The next to be asked for.
        self.chunks_fetched = 0  # Only the fetching thread counts these ...
        self.chunks_used = 0  # ... and only the reading one these.

    @property
    def chunks_ahead(self) -> int:
        """How many chunks wait to be read."""
        return self.chunks_fetched - self.chunks_used


class Stand:
    """The progress of reading a partition since the last seek.

    Only the reader moves it. A seek makes a new one: records fetched for the old one still refer to it,
    and are recognized as invalid. New fetches for the same stand start at its position, or
    before it if that moves meanwhile; the reader skips records that it has returned. So the reading
    thread and the fetching thread need no lock between them.
    """

    __slots__ = ("began_at", "fetching", "leader_epoch", "named", "position")

    def __init__(self, position: int | None, leader_epoch: int = NO_EPOCH) -> None:
        self.began_at = position  # Records before it were polled before the seek.
        self.position = position  # The offset of the next record for the user; None while it is looked up.
        self.leader_epoch = leader_epoch  # Of the batch before it.
        self.named: int | None = None  # The last offset that the user's own commits have named.
        self.fetching = Fetching(position)


class _Left(NamedTuple):
    """The last position in a topic, when another one appeared under its name."""

    stand: Stand
    reset_to: int | str | None
    validated_epoch: int


class PartitionState:
    """One partition that the consumer reads."""

    __slots__ = (
        "failures",
        "high_watermark",
        "is_topic_refused",
        "is_wanted",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "paused",
        "read_replica",
        "read_replica_until_ms",
        "reset_to",
        "retry_at_ms",
        "served",
        "stand",
        "topic_id",
        "topics_before",
        "validated_epoch",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.topic_id: UUID | None = None  # Of the topic whose offsets these are; None until it is known.
        self.is_topic_refused = False  # A broker has no topic of that id, or not yet.
        self.topics_before: dict[UUID, _Left | None] = {}  # Where topics of that name were left, by their id.
        self.stand = Stand(None)
        self.reset_to: int | str | None = (
            None  # A ListOffsets timestamp, RESET or NOT_COMMITTED; None: the committed offset.
        )
        self.paused = False
        self.is_wanted = True  # False from a subscription without its topic until the group takes it away.
        self.validated_epoch = NO_EPOCH  # The leader's epoch for which the position was checked.
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.read_replica: int | None = None  # A broker that the leader wants this consumer to read from.
        self.read_replica_until_ms = 0
        self.retry_at_ms = 0.0
        self.failures = 0  # Unsuccessful lookups in a row.
        self.served = (
            0  # The number of the last answer with its data: the one that waits longest comes first.
        )

    @property
    def position(self) -> int | None:
        """The offset of the next record for the user, None until it is known."""
        return self.stand.position

    @property
    def fetch_offset(self) -> int | None:
        """The next offset to be asked for, None until it is known."""
        return self.stand.fetching.offset

    def seek(self, offset: int, leader_epoch: int = NO_EPOCH, *, validated_epoch: int = NO_EPOCH) -> None:
        """Go on at `offset`, before which the leader of that epoch wrote."""
        self.stand = Stand(offset, leader_epoch)
        self.reset_to = None
        self.validated_epoch = validated_epoch
        self.failures, self.retry_at_ms = 0, 0.0

    def seek_to(self, where: int | str) -> None:
        """Go on where a lookup of the timestamp `where` leads to."""
        self.stand = Stand(None)
        self.reset_to = where
        self.failures, self.retry_at_ms = 0, 0.0

    def void(self) -> None:
        """Drop fetched records; the position stays."""
        stand = self.stand
        stand.fetching = Fetching(stand.position)

    def belongs_to(self, topic_id: UUID) -> bool:
        """Apply the topic's id; return whether the positions are those of another topic with its name.

        Then it is read by auto_offset_reset, as a committed offset is that of the former topic. Brokers that
        lag behind may still report a former id: that counts if a broker
        refuses the newer one, and then reading continues at the former position.
        """
        if self.topic_id is None:
            self.topic_id = topic_id
        if self.topic_id == topic_id or (topic_id in self.topics_before and not self.is_topic_refused):
            return False
        while len(self.topics_before) >= TOPICS_BEFORE_MAX:
            del self.topics_before[next(iter(self.topics_before))]
        self.topics_before[self.topic_id] = _Left(self.stand, self.reset_to, self.validated_epoch)
        is_new = topic_id not in self.topics_before
        left = self.topics_before.pop(topic_id, None)
        self.topic_id = topic_id
        self.is_topic_refused = False
        if is_new:
            self.seek_to(NOT_COMMITTED)
        elif left is not None:
            self.stand, self.reset_to, self.validated_epoch = left
        self.void()
        return True

    def sought(self) -> None:
        """Let a seek count for any topic with the name."""
        self.topics_before = dict.fromkeys(self.topics_before)

    def want(self, *, is_wanted: bool) -> None:
        """Read it, or not any more although it is still assigned: the subscription has changed."""
        if is_wanted != self.is_wanted:
            self.is_wanted = is_wanted
            self.void()

    def drop(self) -> None:
        """Drop fetched records, and prevent further fetches: the partition is another member's.

        A fetch that was planned before, and is sent after this, leaves it out: it has no offset.
        """
        self.stand = Stand(None)

    @property
    def needs_commit(self) -> bool:
        """Whether reading starts at the committed offset, if there is one."""
        return self.stand.position is None and self.reset_to is None

    @property
    def needs_offset(self) -> bool:
        """Whether reading starts at a looked-up offset."""
        return self.stand.position is None and self.reset_to is not None

    def retry_later(self, now_ms: float, first_ms: int, most_ms: int) -> None:
        """Look this partition up again after a wait that doubles."""
        self.retry_at_ms = now_ms + backoff_ms(self.failures, first_ms, most_ms)
        self.failures += 1

    def needs_validation(self, leader_epoch: int) -> bool:
        """Whether the position was read from another leader, who may have had other records (KIP-320)."""
        return self.stand.leader_epoch >= 0 and leader_epoch >= 0 and leader_epoch != self.validated_epoch

    def reads_from(self, leader_epoch: int) -> None:
        """Note the leader of the next fetch: its records need no other check.

        Unless there is something already that another one has sent.
        """
        if self.stand.leader_epoch < 0 and not self.stand.fetching.chunks_ahead:
            self.validated_epoch = leader_epoch

    def use_replica(self, node_id: int, until_ms: int) -> None:
        """Read from this follower for a while (KIP-392)."""
        self.read_replica = node_id
        self.read_replica_until_ms = until_ms

    def forget_replica(self) -> bool:
        """Read from the leader again; return whether it was another."""
        had, self.read_replica = self.read_replica, None
        return had is not None


class Positions:
    """The partitions that are assigned, in the order in which they were."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self.version = 0  # How often others were assigned.

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(tuple(self._states.values()))

    def __contains__(self, partition: object) -> bool:
        return partition in self._states

    def get(self, partition: TopicPartition) -> PartitionState:
        """Return one partition's state. Raises: ValueError if it is not assigned."""
        try:
            return self._states[partition]
        except KeyError:
            if not isinstance(partition, tuple):
                words = f"a partition is a TopicPartition(topic, partition), not {partition!r:.100}"
                raise TypeError(words) from None
            raise ValueError(f"partition {partition} is not assigned to this consumer") from None

    def find(self, partition: TopicPartition) -> PartitionState | None:
        """Return one partition's state, or None if it is not assigned."""
        return self._states.get(partition)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these from now on; kept ones keep their positions."""
        self.version += 1
        wanted = dict.fromkeys(partitions)
        for each in self:
            if each.partition not in wanted:
                each.drop()
        self._states = {each: self._states.get(each) or PartitionState(each) for each in wanted}

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return the assigned partitions."""
        return tuple(self._states)

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a commit of all returned records would commit."""
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for each in self:
            stand = each.stand
            if stand.position is not None:
                found[each.partition] = OffsetAndMetadata(stand.position, leader_epoch=stand.leader_epoch)
        return found

    def consumed_before(
        self, unfinished: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets for an automatic commit: the consumed ones, without `unfinished`.

        `unfinished` are the first offsets of returned records that the user could not handle; a seek since
        has decided where to continue. If the user has committed a later offset, that one stays.
        """
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, consumed in self.consumed().items():
            stand, first = self._states[partition].stand, unfinished.get(partition)
            is_held = first is not None and stand.began_at is not None and first >= stand.began_at
            handled = consumed
            if is_held and first is not None and first < consumed.offset:
                handled = OffsetAndMetadata(first)
            if stand.named is None or stand.named <= handled.offset:
                found[partition] = handled
        return found

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, UUID]:
        """Return the ids of the topics of these partitions, as far as they are known."""
        ids: dict[str, UUID] = {}
        for each in partitions:
            state = self._states.get(each)
            if state is not None and state.topic_id is not None:
                ids[each.topic] = state.topic_id
        return ids

    def begin_anew(self, topics: Mapping[str, TopicMetadata]) -> list[TopicPartition]:
        """Go on in the topics that have these names by now; return partitions that are another topic's."""
        remade = []
        for each in self:
            topic = topics.get(each.partition.topic)
            if topic is not None and topic.topic_id != ZERO_UUID and each.belongs_to(topic.topic_id):
                remade.append(each.partition)
        return remade

    def name(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that the user commits these offsets."""
        for partition, committed in offsets.items():
            state = self._states.get(partition)
            if state is not None:
                state.stand.named = committed.offset
