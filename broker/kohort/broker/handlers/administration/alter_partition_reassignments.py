"""AlterPartitionReassignments: partitions go to other brokers, or stay after all (KIP-455)."""

from kohort.broker.controller.requests import plan_reassignments
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.handlers.administration.planned import carry_out
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    admin: Administration, message: AlterPartitionReassignmentsRequest, request: Request
) -> AlterPartitionReassignmentsResponse:
    """Return for each partition that it goes where it was asked to go, or why it can't."""
    wanted = [
        ((topic.name, each.partition_index), each.replicas)
        for topic in message.topics
        for each in topic.partitions
    ]
    may_change_factor = message.allow_replication_factor_change
    outcomes = await carry_out(
        admin.metadata,
        lambda snapshot: plan_reassignments(snapshot, wanted, may_change_factor=may_change_factor),
    )
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=message.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _result(each.partition_index, outcomes[topic.name, each.partition_index])
                    for each in topic.partitions
                ),
            )
            for topic in message.topics
        ),
    )


def _result(index: int, refused: ApiError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE if refused is None else refused.code,
        error_message=None if refused is None else refused.message,
    )
