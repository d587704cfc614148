"""DescribeGroups: state, members and assignments. Kafka: KafkaApis.handleDescribeGroupsRequest."""

from kohort.broker.group import DescribeGroup
from kohort.broker.handlers.groups.describing import describe_each
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.handlers.groups.group_operations import with_operations
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def handle(
    groups: GroupServices, message: DescribeGroupsRequest, request: Request
) -> DescribeGroupsResponse | None:
    """Ask every group's shard; answered when all have answered."""
    if not message.groups:
        return DescribeGroupsResponse(groups=())

    def finish(found: tuple[DescribedGroup, ...]) -> None:
        asked = message.include_authorized_operations
        request.respond(DescribeGroupsResponse(groups=with_operations(found, asked=asked)))

    describe_each(
        groups.shards,
        message.groups,
        request,
        command=lambda request_id, group_id: DescribeGroup(request_id, group_id, request.version),
        refused=refused,
        finish=finish,
    )
    return None


def refused(group_id: str, code: ErrorCode) -> DescribedGroup:
    """Return the answer of a group that cannot be asked."""
    return DescribedGroup(
        error_code=code,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=(),
    )
