"""What administrators ask of partitions: elections, and moves to other brokers; each partition by itself.

Decided on a snapshot by the broker that gets the request: the store compares each changed partition, so
that nothing is decided twice. Further steps of a reassignment are done by the controller.
Source: ReplicationControlManager.electLeaders and alterPartitionReassignments; KIP-455, KIP-460.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from uuid import UUID

from kohort.broker.controller.balance import preferred
from kohort.broker.controller.election import reassigned, settled
from kohort.broker.controller.facts import LiveBrokers, TopicRules, live_brokers
from kohort.broker.controller.reassignment import ReassignmentRefused, begin, cancel
from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState
from kohort.broker.metadata.snapshot import Mutation, PartitionKey, Snapshot, TopicState
from kohort.protocol.errors import ApiError, ErrorCode

TopicPartition = tuple[str, int]
"""A topic's name and a partition's index, as clients name them."""
Outcomes = dict[TopicPartition, ApiError | None]
"""Of each partition that was asked about why it can't be, or None."""
RulesOf = Callable[[TopicState], TopicRules]

_ASSIGNMENT = "The manual partition assignment includes"


class ElectionKind(IntEnum):
    """The kind of election. Source: org.apache.kafka.common.ElectionType."""

    PREFERRED = 0
    UNCLEAN = 1


def found_partition(snapshot: Snapshot, place: TopicPartition) -> tuple[UUID, PartitionState]:
    """Return the topic's id and the partition. Raises: ApiError UNKNOWN_TOPIC_OR_PARTITION."""
    name, index = place
    topic = snapshot.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= index < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    return topic.topic_id, topic.partitions[index]


# -- elections --------------------------------------------------------------------------------------------


def plan_elections(
    snapshot: Snapshot, kind: ElectionKind, wanted: Iterable[TopicPartition] | None, rules_of: RulesOf
) -> tuple[Mutation, Outcomes]:
    """Return what elects these partitions' leaders, and what becomes of each.

    None means all partitions: then those without a necessary election are left out of the results.
    """
    outcomes: Outcomes = {}
    changes: dict[PartitionKey, PartitionState] = {}
    brokers = live_brokers(snapshot)
    for place in _every_place(snapshot) if wanted is None else wanted:
        try:
            topic_id, state = found_partition(snapshot, place)
            rules = rules_of(snapshot.topics_by_id[topic_id])
            changes[topic_id, state.index] = _elected(state, kind, brokers, rules)
        except ApiError as error:
            if wanted is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                outcomes[place] = error
        else:
            outcomes[place] = None
    return Mutation(partitions=changes), outcomes


def _every_place(snapshot: Snapshot) -> list[TopicPartition]:
    return [(topic.name, each.index) for topic in snapshot.topics.values() for each in topic.partitions]


def _elected(
    state: PartitionState, kind: ElectionKind, brokers: LiveBrokers, rules: TopicRules
) -> PartitionState:
    """Return the state with the leader that was asked for. Raises: ApiError where it can't be had."""
    leads = state.leader in brokers
    if kind is ElectionKind.PREFERRED:
        if leads and state.replicas and state.leader == state.replicas[0]:
            raise ApiError(ErrorCode.ELECTION_NOT_NEEDED)
        after = preferred(state, brokers) if state.replicas else state
        if after is state:
            raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
        return after
    if leads:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED)
    after = settled(state, brokers, rules._replace(unclean_leader_election=True))
    if after.leader == NO_LEADER:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return after


# -- moves ------------------------------------------------------------------------------------------------


def plan_reassignments(
    snapshot: Snapshot,
    wanted: Iterable[tuple[TopicPartition, Sequence[int] | None]],
    *,
    may_change_factor: bool = True,
) -> tuple[Mutation, Outcomes]:
    """Return what sets partitions on their way to other brokers, None to where they were, and the outcomes.

    One that is named twice goes where it was named for last.
    """
    outcomes: Outcomes = {}
    changes: dict[PartitionKey, PartitionState] = {}
    brokers = live_brokers(snapshot)
    for place, target in wanted:
        outcomes[place] = None
        try:
            topic_id, state = found_partition(snapshot, place)
            after = _moved(state, target, brokers, may_change_factor=may_change_factor)
        except ApiError as error:
            outcomes[place] = error
        except ReassignmentRefused as refusal:
            outcomes[place] = ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(refusal))
        else:
            changes[topic_id, state.index] = after
    return Mutation(partitions=changes), outcomes


def _moved(
    state: PartitionState, target: Sequence[int] | None, brokers: LiveBrokers, *, may_change_factor: bool
) -> PartitionState:
    if target is None:
        if not state.adding and not state.removing:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        return reassigned(state, cancel(state), brokers)
    _check_target(state, target, brokers)
    heading_for = len(state.replicas) - len(state.removing)
    if not may_change_factor and len(target) != heading_for:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {heading_for} to {len(target)}",
        )
    return reassigned(state, begin(state, target, brokers), brokers)


def _check_target(state: PartitionState, target: Sequence[int], brokers: LiveBrokers) -> None:
    """Return if a partition can be put on these brokers. Raises: ApiError INVALID_REPLICA_ASSIGNMENT."""
    if not target:
        raise _bad_assignment("an empty replica list.")
    for position, node_id in enumerate(target):
        if node_id in target[:position]:
            raise _bad_assignment(f"the broker {node_id} more than once.")
        if node_id not in brokers and node_id not in state.replicas:
            raise _bad_assignment(f"broker {node_id}, but no such broker is registered.")


def _bad_assignment(what: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{_ASSIGNMENT} {what}")


def moving(snapshot: Snapshot, places: Iterable[TopicPartition] | None) -> dict[str, list[PartitionState]]:
    """Return by topic which of these partitions, or of all, are being reassigned.

    Unknown ones are left out.
    """
    found: dict[str, list[PartitionState]] = {}
    for name, index in _every_place(snapshot) if places is None else places:
        try:
            _, state = found_partition(snapshot, (name, index))
        except ApiError:
            continue
        if state.adding or state.removing:
            found.setdefault(name, []).append(state)
    return found
