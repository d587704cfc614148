"""What the admin client makes of answers about share groups."""

from typing import Any, cast

import pytest

from kohort.client.admin_share_groups import share_offsets
from kohort.client.cluster import Cluster
from kohort.client.config import admin_config
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsPartition,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponseTopic,
)
from kohort.protocol.schema import ZERO_UUID


class Coordinator:
    """A cluster whose share coordinator of partition 1 is being loaded when it is asked first."""

    def __init__(self) -> None:
        self.config = admin_config({"bootstrap_servers": "nobody:1", "retry_backoff_ms": 1})
        self.asked: list[tuple[int, ...] | None] = []

    def check_coordinated(self, *_: object) -> None:
        """The coordinator of the group is found."""

    async def request_coordinator(
        self, _group_id: str, request: DescribeShareGroupOffsetsRequest, _kind: object
    ) -> DescribeShareGroupOffsetsResponse:
        topics = request.groups[0].topics
        wanted = None if topics is None else topics[0].partitions
        self.asked.append(wanted)
        loading = len(self.asked) == 1
        partitions = tuple(
            DescribeShareGroupOffsetsPartition(
                partition_index=index,
                start_offset=10 + index,
                leader_epoch=0,
                lag=index,
                error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading and index else ErrorCode.NONE,
                error_message=None,
            )
            for index in wanted or (0, 1)
        )
        topic = DescribeShareGroupOffsetsResponseTopic(
            topic_name="t", topic_id=ZERO_UUID, partitions=partitions
        )
        group = DescribeShareGroupOffsetsResponseGroup(
            group_id="g", topics=(topic,), error_code=ErrorCode.NONE
        )
        return DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=(group,))


@pytest.mark.parametrize("named", [None, (0, 1)])
async def test_partitions_whose_coordinator_is_being_loaded_are_asked_for_again(named: Any) -> None:
    coordinator = Coordinator()
    partitions = None if named is None else [TopicPartition("t", index) for index in named]
    found = await share_offsets(cast("Cluster", coordinator), "g", partitions)
    assert {each.partition: offset.start_offset for each, offset in found.items()} == {0: 10, 1: 11}
    assert coordinator.asked == [named, (1,)]
