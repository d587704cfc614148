"""What an application does with which topics, and what follows for the topics that are made for it.

A topology has the source topics and the state topics of each subtopology. The partition counts of the
internal ones depend on the source topics: `configured` computes them, or the error. Source:
Kafka's InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

import msgspec

from kohort.broker.group.metadata import Metadata
from kohort.protocol.errors import ApiError, ErrorCode

NAMES_SHOWN = 3
"""Of more topics only the first are named, as in Kafka."""


class Status(IntEnum):
    """Status messages for members about their group (Kafka: StreamsGroupHeartbeatResponse.Status)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class InternalTopic(msgspec.Struct, frozen=True):
    """A topic that is made for the application; 0 partitions or replicas leave their number to the broker."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(msgspec.Struct, frozen=True):
    """Topics that need equally many partitions, as indexes into the lists of their subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the application whose tasks are its own."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Every topic that it reads."""
        return (*self.source_topics, *(each.name for each in self.repartition_sources))

    def copartitioned(self) -> list[tuple[str, ...]]:
        """Return the names of topics that need equally many partitions, together."""
        return [
            (
                *(self.source_topics[index] for index in each.source_topics),
                *(self.repartition_sources[index].name for index in each.repartition_source_topics),
            )
            for each in self.copartition_groups
        ]


class Topology(msgspec.Struct, frozen=True):
    """An application, in its own numbering (Kafka: StreamsTopology)."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    def is_same(self, other: "Topology") -> bool:
        """Return whether both are equal, in any order."""
        return self.epoch == other.epoch and _canonical(self) == _canonical(other)

    @property
    def source_topics(self) -> frozenset[str]:
        """Every topic that the group reads, those included that are made for it."""
        return frozenset(name for each in self.subtopologies for name in each.inputs)

    @property
    def required_topics(self) -> frozenset[str]:
        """Every topic that the group needs."""
        changelogs = (topic.name for each in self.subtopologies for topic in each.changelogs)
        return self.source_topics.union(changelogs)


def _canonical(topology: Topology) -> frozenset[tuple[object, ...]]:
    return frozenset(
        (
            each.subtopology_id,
            frozenset(each.source_topics),
            frozenset(each.source_topic_regex),
            frozenset(map(_unordered, each.changelogs)),
            frozenset(each.repartition_sinks),
            frozenset(map(_unordered, each.repartition_sources)),
            frozenset(map(frozenset, each.copartitioned())),
        )
        for each in topology.subtopologies
    )


def _unordered(topic: InternalTopic) -> tuple[object, ...]:
    return topic.name, topic.partitions, topic.replication_factor, frozenset(topic.configs)


class ConfiguredSubtopology(msgspec.Struct, frozen=True):
    """A subtopology with the numbers that follow from the topics: Kafka's ConfiguredSubtopology."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks keep state that outlives them."""
        return bool(self.changelogs)


class Configured(msgspec.Struct, frozen=True):
    """The result for a topology: its subtopologies, the missing topics, the errors."""

    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: tuple[InternalTopic, ...] = ()
    status: Status | None = None
    detail: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be given out."""
        return self.status is None


class _Trouble(Exception):
    """The topics do not fit the topology."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def configured(topology: Topology, metadata: Metadata) -> Configured:
    """Return what follows from the topics as they are. Raises: ApiError STREAMS_INVALID_TOPOLOGY."""
    try:
        _check_sources(topology, metadata)
        counts = _Counts(topology, metadata).decided()
        subtopologies = {
            each.subtopology_id: _with_counts(each, counts, metadata)
            for each in sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
        }
        missing = _missing(subtopologies, metadata)
    except _Trouble as trouble:
        return Configured(None, (), trouble.status, trouble.detail)
    if missing:
        detail = f"Internal topics are missing: {shortened_names(each.name for each in missing)}"
        return Configured(subtopologies, missing, Status.MISSING_INTERNAL_TOPICS, detail)
    return Configured(subtopologies)


def shortened_names(names: Iterable[str]) -> str:
    """Return the names as text, the first ones of many."""
    found = sorted(names)
    told = ", ".join(found[:NAMES_SHOWN])
    more = len(found) - NAMES_SHOWN
    return f"{told} and {more} additional topics" if more > 0 else told


def _check_sources(topology: Topology, metadata: Metadata) -> None:
    missing = {
        name for each in topology.subtopologies for name in each.source_topics if name not in metadata.topics
    }
    if missing:
        detail = f"Source topics {shortened_names(missing)} are missing."
        raise _Trouble(Status.MISSING_SOURCE_TOPICS, detail)


class _Counts:
    """How many partitions each topic has, or will have."""

    def __init__(self, topology: Topology, metadata: Metadata) -> None:
        self._subtopologies = topology.subtopologies
        self._metadata = metadata
        self._decided: dict[str, int] = {}

    def decided(self) -> dict[str, int]:
        """Return the partitions of every internal topic."""
        self._decide_repartition()
        asked = {
            topic.name: topic.partitions for each in self._subtopologies for topic in each.repartition_sources
        }
        for each in self._subtopologies:
            for names in each.copartitioned():
                self._copartition(names, asked)
        for each in self._subtopologies:
            if not each.inputs:
                words = f"No source topics found for subtopology {each.subtopology_id}"
                raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)
            count = self._most(each.inputs)
            self._decided.update((topic.name, count) for topic in each.changelogs)
        return self._decided

    def of(self, name: str) -> int | None:
        """Return the partitions of a topic; None where they are not known yet."""
        topic = self._metadata.topics.get(name)
        return self._decided.get(name) if topic is None else len(topic.partitions)

    def _most(self, names: Sequence[str]) -> int:
        counts = [self.of(name) for name in names]
        if None in counts:
            name = names[counts.index(None)]
            raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"No partition count for topic {name}")
        return max((count for count in counts if count is not None), default=0)

    def _decide_repartition(self) -> None:
        """Give each repartition topic the largest partition count of its sources."""
        undecided: list[str] = []
        for each in self._subtopologies:
            for topic in each.repartition_sources:
                if topic.partitions:
                    self._decided[topic.name] = topic.partitions
                else:
                    undecided.append(topic.name)
        while undecided:
            left = [name for name in undecided if not self._decide(name)]
            if len(left) == len(undecided):
                raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, self._why_undecided(left))
            undecided = left

    def _why_undecided(self, names: Iterable[str]) -> str:
        sinks = {name for each in self._subtopologies for name in each.repartition_sinks}
        if sinks.issuperset(names):
            return (
                "Failed to compute number of partitions for all repartition topics. There may be loops in "
                "the topology that cannot be resolved."
            )
        return (
            "Failed to compute number of partitions for all repartition topics, because a repartition source "
            "topic is never used as a sink topic."
        )

    def _decide(self, name: str) -> bool:
        """Return whether the partition count of a repartition topic is determined by now."""
        counts = [
            self._decided.get(topic, self.of(topic))
            for each in self._subtopologies
            if name in each.repartition_sinks
            for topic in each.inputs
        ]
        known = [count for count in counts if count is not None]
        if not known:
            return False
        self._decided[name] = max(known)
        return True

    def _copartition(self, names: Sequence[str], asked: Mapping[str, int]) -> None:
        """Give flexible topics of a group the count of the others, which must be equal."""
        if not names:
            return
        fixed = {name: asked[name] for name in names if asked.get(name)}
        flexible = [name for name in names if asked.get(name) == 0]
        external = {name: self._most((name,)) for name in names if name not in asked}
        if external:
            _check_same(external, "Following topics do not have the same number of partitions: ")
            count = next(iter(external.values()))
        elif fixed:
            _check_same(fixed, "Following topics do not have the same number of partitions: ")
            count = next(iter(fixed.values()))
        else:
            count = max(self._decided[name] for name in flexible)
        for name, own in sorted(fixed.items()):
            if own != count:
                raise _Trouble(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{own}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{count}] of the source topic.",
                )
        for name in flexible:
            self._decided[name] = count


def _check_same(counts: Mapping[str, int], words: str) -> None:
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name}={counts[name]}" for name in sorted(counts))
        raise _Trouble(Status.INCORRECTLY_PARTITIONED_TOPICS, f"{words}[{{{told}}}]")


def _with_counts(
    subtopology: Subtopology, counts: Mapping[str, int], metadata: Metadata
) -> ConfiguredSubtopology:
    def made(topic: InternalTopic) -> InternalTopic:
        present = metadata.topics.get(topic.name)
        known = 0 if present is None else len(present.partitions)
        return msgspec.structs.replace(topic, partitions=counts.get(topic.name) or topic.partitions or known)

    def partitions(name: str) -> int:
        topic = metadata.topics.get(name)
        return counts[name] if topic is None else len(topic.partitions)

    return ConfiguredSubtopology(
        tasks=max(map(partitions, subtopology.inputs), default=0),
        source_topics=subtopology.source_topics,
        repartition_sinks=subtopology.repartition_sinks,
        repartition_sources=tuple(map(made, subtopology.repartition_sources)),
        changelogs=tuple(map(made, subtopology.changelogs)),
    )


def _missing(
    subtopologies: Mapping[str, ConfiguredSubtopology], metadata: Metadata
) -> tuple[InternalTopic, ...]:
    """Return the missing internal topics. Raises: _Trouble where one has another size."""
    needed = {
        topic.name: topic
        for each in subtopologies.values()
        for topic in (*each.repartition_sources, *each.changelogs)
    }
    missing = []
    for name in sorted(needed):
        present = metadata.topics.get(name)
        if present is None:
            missing.append(needed[name])
        elif len(present.partitions) != needed[name].partitions:
            raise _Trouble(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected "
                f"{needed[name].partitions}, found {len(present.partitions)}",
            )
    return tuple(missing)
