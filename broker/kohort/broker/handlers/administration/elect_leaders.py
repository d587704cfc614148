"""ElectLeaders: elects preferred leaders, or any live replica (KIP-460)."""

from functools import partial

from kohort.broker.controller.facts import topic_rules
from kohort.broker.controller.requests import ElectionKind, Outcomes, plan_elections
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.handlers.administration.planned import carry_out
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersReplicaElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
)


async def handle(
    admin: Administration, message: ElectLeadersRequest, request: Request
) -> ElectLeadersResponse:
    """Return the result for each partition; clients learn the leaders by Metadata."""
    try:
        kind = ElectionKind(message.election_type if request.version > 0 else ElectionKind.PREFERRED)
    except ValueError:
        return ElectLeadersResponse(
            throttle_time_ms=0, error_code=ErrorCode.INVALID_REQUEST, replica_election_results=()
        )
    wanted = None
    if message.topic_partitions is not None:
        wanted = [(topic.topic, index) for topic in message.topic_partitions for index in topic.partitions]
    rules_of = partial(topic_rules, admin.current.config)
    outcomes = await carry_out(
        admin.metadata, lambda snapshot: plan_elections(snapshot, kind, wanted, rules_of)
    )
    return ElectLeadersResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, replica_election_results=_results(outcomes)
    )


def _results(outcomes: Outcomes) -> tuple[ElectLeadersReplicaElectionResult, ...]:
    topics: dict[str, list[ElectLeadersPartitionResult]] = {}
    for (name, index), refused in outcomes.items():
        topics.setdefault(name, []).append(_result(index, refused))
    return tuple(
        ElectLeadersReplicaElectionResult(topic=name, partition_result=tuple(results))
        for name, results in topics.items()
    )


def _result(index: int, refused: ApiError | None) -> ElectLeadersPartitionResult:
    return ElectLeadersPartitionResult(
        partition_id=index,
        error_code=ErrorCode.NONE if refused is None else refused.code,
        error_message=None if refused is None else refused.message,
    )
