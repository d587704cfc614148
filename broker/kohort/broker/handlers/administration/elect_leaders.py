"""ElectLeaders: preferred leaders lead again, or whoever is left leads with what it has (KIP-460)."""

from kohort.broker.config import topic_config
from kohort.broker.controller.facts import TopicRules
from kohort.broker.controller.requests import ElectionKind, Outcomes, plan_elections
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import Mutation, Snapshot, TopicState, update
from kohort.broker.metadata.store import storage_error
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import (
    ElectLeadersPartitionResult,
    ElectLeadersReplicaElectionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kohort.storage import StorageError


async def handle(
    admin: Administration, message: ElectLeadersRequest, request: Request
) -> ElectLeadersResponse:
    """Return for each partition that it has elected, or why not; who leads, clients hear by Metadata."""
    try:
        kind = ElectionKind(message.election_type if request.version > 0 else ElectionKind.PREFERRED)
    except ValueError:
        return ElectLeadersResponse(
            throttle_time_ms=0, error_code=ErrorCode.INVALID_REQUEST, replica_election_results=()
        )
    wanted = None
    if message.topic_partitions is not None:
        wanted = [(topic.topic, index) for topic in message.topic_partitions for index in topic.partitions]
    outcomes: Outcomes = {}

    def rules_of(topic: TopicState) -> TopicRules:
        config = topic_config(admin.current.config, dict(topic.configs))
        return TopicRules(config.min_insync_replicas, config.unclean_leader_election_enable)

    def decide(snapshot: Snapshot) -> Mutation:
        mutation, planned = plan_elections(snapshot, kind, wanted, rules_of)
        outcomes.clear()
        outcomes.update(planned)
        return mutation

    try:
        await update(admin.metadata, decide)
    except StorageError as error:
        failed = storage_error(error)
        outcomes = {place: refused or failed for place, refused in outcomes.items()}
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
