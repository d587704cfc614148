"""Topics are created, deleted and given more partitions: decided on the newest snapshot, changed at once."""

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import msgspec

from kohort.broker.config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata.internal_topics import internal_topics
from kohort.broker.metadata.snapshot import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    Mutation,
    Snapshot,
    TopicState,
)
from kohort.broker.metadata.store import ChangeUnknown, Failed, MetadataStore, storage_error, update
from kohort.broker.metadata.topic_names import MetricNames
from kohort.broker.metadata.topic_plans import (
    NewTopic,
    Placement,
    Replicas,
    check_partition_count,
    place_in_turn,
    plan_partitions,
    plan_topic,
)
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.storage import StorageError

KEPT_TOPICS = {
    OFFSETS_TOPIC: "the groups' offsets",
    TRANSACTIONS_TOPIC: "how transactions stand",
    SHARE_STATE_TOPIC: "what share groups have done",
}
"""Topics that must not be changed, and their purpose."""

Outcome = TopicState | ApiError
"""The resulting topic, or the planned one; or the error."""


class MorePartitions(msgspec.Struct, frozen=True):
    """The new total number of partitions of a topic, and the replicas of the new ones."""

    name: str
    count: int
    assignments: Sequence[Replicas] | None = None


def duplicate(what: object) -> ApiError:
    """Return the error for a name that a request contains twice."""
    return ApiError(ErrorCode.INVALID_REQUEST, f"{what} is named more than once in the request")


Ready = Callable[[str], Awaitable[None]]
"""Returns once the partitions that a topic of this name has just been given can be used."""


class Topics:
    """The topics of the cluster, as a client or the broker itself may change them."""

    def __init__(
        self, store: MetadataStore, current: CurrentConfig, ready: Ready, place: Placement = place_in_turn
    ) -> None:
        """`place` says which brokers get the replicas of new partitions."""
        self._store = store
        self._current = current
        self._ready = ready
        self._place = place

    async def create(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> dict[str, Outcome]:
        """Return the outcome of each topic by name. One change creates all valid ones."""
        outcomes: dict[str, Outcome] = {}

        def decide(snapshot: Snapshot) -> Mutation:
            outcomes.clear()
            outcomes.update(_plan_topics(snapshot, topics, self._current.config, self._place))
            return Mutation() if validate_only else Mutation(put=_good(outcomes))

        return await self._grow(decide, outcomes)

    async def add_partitions(
        self, wanted: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> dict[str, Outcome]:
        """Return the outcome for each topic by name. One change applies all valid ones."""
        outcomes: dict[str, Outcome] = {}

        def decide(snapshot: Snapshot) -> Mutation:
            outcomes.clear()
            for each in wanted:
                known = each.name in outcomes
                named_twice = duplicate(f"topic {each.name}")
                outcomes[each.name] = named_twice if known else _grown(snapshot, each, self._place)
            return Mutation() if validate_only else Mutation(put=_good(outcomes))

        return await self._grow(decide, outcomes)

    async def _grow(
        self, decide: Callable[[Snapshot], Mutation], outcomes: dict[str, Outcome]
    ) -> dict[str, Outcome]:
        """Return the results when the new partitions have their logs: the first produce finds them open."""
        try:
            await update(self._store, decide)
        except Failed as error:
            return _failed(outcomes, error)
        for topic in _good(outcomes):
            await self._ready(topic.name)
        return outcomes

    async def ensure(self, new: NewTopic) -> TopicState:
        """Return the topic, which is created if it is not there yet.

        Raises: ApiError if it can't be created.
        """
        present = self._store.snapshot().topics.get(new.name)
        if present is not None:
            return present
        outcome = (await self.create([new]))[new.name]
        if isinstance(outcome, TopicState):
            return outcome
        # Another caller may have created it in between: then it exists, as requested.
        present = self._store.snapshot().topics.get(new.name)
        if present is None:
            raise outcome
        return present

    async def auto_create(self, names: Sequence[str]) -> dict[str, Outcome]:
        """Return the outcome of each topic that a client asked about, created with the broker's defaults."""
        own = {each.name: each for each in internal_topics(self._current.config)}
        return await self.create([own.get(name, NewTopic(name)) for name in names])

    async def delete(self, wanted: Sequence[str | UUID]) -> list[tuple[str | UUID, Outcome]]:
        """Return the outcome for each name or id, in order: the topic that was deleted, or an error.

        Its partitions are deleted with it; watchers of the store are called, and groups drop their offsets in
        it.
        """
        outcomes: list[tuple[str | UUID, Outcome]] = []

        def decide(snapshot: Snapshot) -> Mutation:
            outcomes[:] = [(each, _deletable(snapshot, each)) for each in wanted]
            return Mutation(delete=_names(outcomes))

        try:
            await update(self._store, decide)
        except Failed as error:
            failed = storage_error(error)
            return [
                (each, failed if isinstance(outcome, TopicState) else outcome) for each, outcome in outcomes
            ]
        return outcomes


def _failed(outcomes: dict[str, Outcome], error: StorageError | ChangeUnknown) -> dict[str, Outcome]:
    """Return the results if the change was not made, or its result is unknown."""
    return {
        name: storage_error(error) if isinstance(each, TopicState) else each
        for name, each in outcomes.items()
    }


def _good(outcomes: dict[str, Outcome]) -> tuple[TopicState, ...]:
    return tuple(outcome for outcome in outcomes.values() if isinstance(outcome, TopicState))


def _plan_topics(
    snapshot: Snapshot, topics: Sequence[NewTopic], config: BrokerConfig, place: Placement
) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    count = 0
    taken = MetricNames(snapshot.topics)
    for new in topics:
        if new.name in outcomes:
            outcomes[new.name] = duplicate(f"topic {new.name}")
            continue
        try:
            topic = plan_topic(snapshot, new, config, taken, place)
            check_partition_count(count + len(topic.partitions))
            outcomes[new.name] = topic
            taken.take(topic.name)
            count += len(topic.partitions)
        except ApiError as error:
            outcomes[new.name] = error
    return outcomes


def _names(outcomes: Sequence[tuple[str | UUID, Outcome]]) -> tuple[str, ...]:
    deleted = (outcome.name for _, outcome in outcomes if isinstance(outcome, TopicState))
    return tuple(dict.fromkeys(deleted))


def _deletable(snapshot: Snapshot, wanted: str | UUID) -> Outcome:
    if isinstance(wanted, UUID):
        topic = snapshot.topics_by_id.get(wanted)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = snapshot.topics.get(wanted)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return ApiError(missing, f"there is no topic {wanted}")
    return internal_error(topic) if topic.name in KEPT_TOPICS else topic


def internal_error(topic: TopicState) -> ApiError:
    """Return the error for a change that would lose the coordinators' records, or make them unreadable."""
    return ApiError(ErrorCode.INVALID_REQUEST, f"{topic.name} holds {KEPT_TOPICS[topic.name]} and must stay")


def _grown(snapshot: Snapshot, wanted: MorePartitions, place: Placement) -> Outcome:
    topic = snapshot.topics.get(wanted.name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.name}")
    if topic.name in KEPT_TOPICS:
        return internal_error(topic)
    try:
        return plan_partitions(topic, snapshot, wanted.count, wanted.assignments, place)
    except ApiError as error:
        return error
