"""DescribeShareGroupOffsets: where share partitions begin, and how many records are ahead (KIP-1226)."""

from itertools import groupby
from typing import cast

from kohort.broker.coordination.log_ends import LogEnds
from kohort.broker.group.share.group import ShareGroup, ShareTopics
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.metadata import Snapshot
from kohort.broker.share_state.commands import ReadSummary
from kohort.broker.share_state.state import UNKNOWN_OFFSET, ShareKey
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsPartition,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponseTopic,
)
from kohort.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryPartitionResult
from kohort.protocol.schema import ZERO_UUID, Message

Asked = tuple[str, int]


def handle(
    sharing: ShareServices, message: DescribeShareGroupOffsetsRequest, request: Request
) -> DescribeShareGroupOffsetsResponse | None:
    """Ask for every share partition; answered when all have been answered."""
    if not message.groups:
        return DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=())

    def finish(parts: tuple[Message, ...]) -> None:
        groups = cast("tuple[DescribeShareGroupOffsetsResponseGroup, ...]", parts)
        request.respond(DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=groups))

    wanted = tuple(dict.fromkeys(message.groups))  # A repeated question is answered once.
    gather = Gather(len(wanted), finish)
    for position, asked in enumerate(wanted):
        try:
            _Describing(sharing, asked, request).begin(gather, position)
        except ApiError as error:
            gather.put(position, _refused(asked.group_id, error))
    return None


class _Describing:
    """One running request for a group."""

    def __init__(
        self, sharing: ShareServices, asked: DescribeShareGroupOffsetsGroup, request: Request
    ) -> None:
        """Find the group. Raises: ApiError."""
        if not sharing.is_enabled:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if not asked.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        core = sharing.groups.shards.shard_of(asked.group_id).core
        group = core.find(asked.group_id, ShareGroup)
        if group is None and asked.group_id in core.groups:
            words = f"Group {asked.group_id} is not a share group."
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, words)
        self._sharing = sharing
        self._request = request
        self._group_id = asked.group_id
        self._topics: tuple[ShareTopics, ...] = (
            () if group is None else (group.initialized, group.initializing)
        )
        self._snapshot: Snapshot = sharing.groups.metadata.snapshot()
        self._asked = self._all() if asked.topics is None else self._named(asked)

    def _all(self) -> list[Asked]:
        """Return every share partition of the group; none of an unknown group, as in Kafka."""
        return sorted(
            (topic.name, index)
            for topics in self._topics
            for topic_id, topic in topics.items()
            if topic_id in self._snapshot.topics_by_id
            for index in topic.partitions
        )

    @staticmethod
    def _named(asked: DescribeShareGroupOffsetsGroup) -> list[Asked]:
        named = ((topic.topic_name, index) for topic in asked.topics or () for index in topic.partitions)
        return list(dict.fromkeys(named))

    def begin(self, gather: Gather, position: int) -> None:
        """Ask for all."""
        if not self._asked:
            gather.put(position, self._answer([]))
            return

        def finish(parts: tuple[Message, ...]) -> None:
            gather.put(position, self._answer(cast("list[DescribeShareGroupOffsetsPartition]", list(parts))))

        partitions = Gather(len(self._asked), finish)
        kept: dict[int, ShareKey] = {}
        for number, asked in enumerate(self._asked):
            found = self._key_or_answer(asked)
            if isinstance(found, ShareKey):
                kept[number] = found
            else:
                partitions.put(number, found)

        def describe_all() -> None:
            for number, key in kept.items():
                self._describe(key, partitions, number)

        if kept:
            self._sharing.shares().when_kept(list(kept.values()), describe_all, self._request)

    def _key_or_answer(self, asked: Asked) -> ShareKey | DescribeShareGroupOffsetsPartition:
        """Return the key of a share partition that has state, or else what is answered about it."""
        name, index = asked
        topic = self._snapshot.topics.get(name)
        if topic is None:
            return _partition(index)
        if not 0 <= index < len(topic.partitions):
            return _partition(index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        known = (each.get(topic.topic_id) for each in self._topics)
        if not any(each is not None and index in each.partitions for each in known):
            return _partition(index)
        return ShareKey(self._group_id, topic.topic_id, index)

    def _describe(self, key: ShareKey, gather: Gather, number: int) -> None:
        def answered(answer: Message) -> None:
            assert isinstance(answer, ReadShareGroupStateSummaryPartitionResult)
            shares.log_ends.ask(
                key.topic_id,
                key.partition,
                lambda ends: gather.put(number, _summary(key.partition, answer, ends)),
            )

        shares = self._sharing.shares()
        shares.states.ask(key, lambda request_id: ReadSummary(request_id, key), answered)

    def _answer(
        self, parts: list[DescribeShareGroupOffsetsPartition]
    ) -> DescribeShareGroupOffsetsResponseGroup:
        topics = []
        described = zip(self._asked, parts, strict=True)
        for name, of_topic in groupby(described, key=lambda each: each[0][0]):
            state = self._snapshot.topics.get(name)
            topics.append(
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=ZERO_UUID if state is None else state.topic_id,
                    partitions=tuple(part for _, part in of_topic),
                )
            )
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=self._group_id, topics=tuple(topics), error_code=ErrorCode.NONE
        )


def _summary(
    index: int, answer: ReadShareGroupStateSummaryPartitionResult, ends: LogEnds | None
) -> DescribeShareGroupOffsetsPartition:
    if answer.error_code:
        return _partition(index, error_code=ErrorCode(answer.error_code))
    lag = -1
    if ends is not None and answer.start_offset != UNKNOWN_OFFSET and answer.delivery_complete_count >= 0:
        start_offset = max(answer.start_offset, ends.start_offset)
        lag = max(ends.high_watermark - start_offset - answer.delivery_complete_count, 0)
    return _partition(index, start_offset=answer.start_offset, leader_epoch=answer.leader_epoch, lag=lag)


def _partition(
    index: int,
    *,
    start_offset: int = UNKNOWN_OFFSET,
    leader_epoch: int = 0,
    lag: int = -1,
    error_code: ErrorCode = ErrorCode.NONE,
) -> DescribeShareGroupOffsetsPartition:
    return DescribeShareGroupOffsetsPartition(
        partition_index=index,
        start_offset=start_offset,
        leader_epoch=leader_epoch,
        lag=lag,
        error_code=error_code,
        error_message=None if error_code is ErrorCode.NONE else error_code.name,
    )


def _refused(group_id: str, error: ApiError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=(), error_code=error.code, error_message=error.message
    )
