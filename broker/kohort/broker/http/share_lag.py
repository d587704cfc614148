"""How far share groups are behind: what they have not done with, by DescribeShareGroupOffsets (KIP-1226).

Members of share groups acknowledge records and commit no offsets, so that lag by commits is nothing at all.
"""

from collections.abc import Mapping, Sequence

from kohort.broker.group.group import AnyGroup
from kohort.broker.http.asking import NotAnswered
from kohort.broker.http.view import View
from kohort.broker.lag import PartitionLag
from kohort.protocol.errors import ErrorCode

GROUPS_MAX = 200
"""Asked for at once; the others of a list have no lag to show."""
VERSION = 1
UNKNOWN = -1


async def lag_of(view: View, group: AnyGroup) -> list[PartitionLag]:
    """Return how far behind a group of any kind is, in each partition."""
    if group.has_offsets:
        return await view.lag([group])
    return list((await share_lags(view, [group.group_id])).get(group.group_id, ()))


async def share_lags(view: View, group_ids: Sequence[str]) -> Mapping[str, Sequence[PartitionLag]]:
    """Return the lag of share groups that this broker coordinates. Unknown lag is left out."""
    from kohort.protocol.messages.describe_share_group_offsets import (  # noqa: PLC0415  # Most brokers have no share groups.
        DescribeShareGroupOffsetsGroup,
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
    )

    asked = DescribeShareGroupOffsetsRequest(
        groups=tuple(
            DescribeShareGroupOffsetsGroup(group_id=each, topics=None) for each in group_ids[:GROUPS_MAX]
        )
    )
    try:
        answer = await view.reads()("DescribeShareGroupOffsets", VERSION, asked)
    except NotAnswered:
        return {}
    assert isinstance(answer, DescribeShareGroupOffsetsResponse)
    return {
        group.group_id: [
            _row(group.group_id, topic.topic_name, each.partition_index, each.start_offset, each.lag)
            for topic in group.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.NONE and each.start_offset != UNKNOWN
        ]
        for group in answer.groups
        if group.error_code == ErrorCode.NONE
    }


def _row(group_id: str, topic: str, partition: int, start_offset: int, lag: int) -> PartitionLag:
    return PartitionLag(
        group_id,
        topic,
        partition,
        start_offset,
        end_offset=None,
        lag=None if lag == UNKNOWN else lag,
        lag_seconds=None,
        verdict=None,
        complete=0.0,
    )
