"""The authorized operations on a group, as bits in its description: all of them, without an authorizer."""

from typing import TypeVar

import msgspec

from kohort.broker.handlers.administration.authorized_operations import GROUP_OPERATIONS
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeDescribedGroup
from kohort.protocol.messages.describe_groups import DescribedGroup
from kohort.protocol.messages.streams_group_describe import StreamsGroupDescribeDescribedGroup

Described = TypeVar(
    "Described", DescribedGroup, ConsumerGroupDescribeDescribedGroup, StreamsGroupDescribeDescribedGroup
)


def with_operations(groups: tuple[Described, ...], *, asked: bool) -> tuple[Described, ...]:
    """Return the groups with their operations, if requested; an authorizer's guard removes some."""
    if not asked:
        return groups
    return tuple(
        msgspec.structs.replace(each, authorized_operations=GROUP_OPERATIONS)  # type: ignore[type-var]
        if each.error_code == ErrorCode.NONE
        else each
        for each in groups
    )
