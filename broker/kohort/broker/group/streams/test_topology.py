"""What follows from a topology and the topics as they are."""

import pytest

from kohort.broker.group.consumer.test_world import metadata_of
from kohort.broker.group.streams.requests import topology_of
from kohort.broker.group.streams.test_world import WORD_COUNT, application, subtopology, topic
from kohort.broker.group.streams.topology import Configured, Status, configured, shortened_names
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatTopology


def found(told: StreamsGroupHeartbeatTopology, **counts: int) -> Configured:
    return configured(topology_of(told), metadata_of(**counts))


def missing(topics: Configured) -> dict[str, int]:
    return {each.name: each.partitions for each in topics.missing}


def test_source_topics_that_are_not_there_are_named() -> None:
    told = application(subtopology("0", "t", "u"), subtopology("1", "v"))
    topics = found(told, u=1)
    assert (topics.status, topics.detail) == (
        Status.MISSING_SOURCE_TOPICS,
        "Source topics t, v are missing.",
    )
    assert topics.subtopologies is None
    assert not topics.is_ready


def test_internal_topics_get_the_partition_count_of_their_sources() -> None:
    topics = found(WORD_COUNT, t=5)
    assert topics.status is Status.MISSING_INTERNAL_TOPICS
    assert missing(topics) == {"g-c": 5, "g-r": 5}
    assert topics.detail == "Internal topics are missing: g-c, g-r"
    assert topics.subtopologies is not None
    assert {key: each.tasks for key, each in topics.subtopologies.items()} == {"0": 5, "1": 5}
    ready = found(WORD_COUNT, **{"t": 5, "g-c": 5, "g-r": 5})
    assert ready.is_ready
    assert ready.subtopologies is not None
    assert [each.is_stateful for each in ready.subtopologies.values()] == [False, True]


def test_an_internal_topic_of_another_size_is_no_good() -> None:
    topics = found(WORD_COUNT, **{"t": 5, "g-c": 4, "g-r": 5})
    assert topics.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert topics.detail == ("Existing topic g-c has different number of partitions: expected 5, found 4")


def test_a_repartition_topic_has_the_partition_count_that_the_application_sets() -> None:
    told = application(
        subtopology("0", "t", sinks=["r"]),
        subtopology("1", changelogs=["c"], repartition=[topic("r", 7)]),
    )
    assert missing(found(told, t=2)) == {"c": 7, "r": 7}


def test_chained_repartition_topics_are_resolved_in_any_order() -> None:
    told = application(
        subtopology("0", repartition=[topic("r2")], changelogs=["c"]),
        subtopology("1", sinks=["r2"], repartition=[topic("r1")]),
        subtopology("2", "t", sinks=["r1"]),
    )
    assert missing(found(told, t=3)) == {"c": 3, "r1": 3, "r2": 3}


def test_repartition_topics_in_a_circle_can_not_be_resolved() -> None:
    told = application(
        subtopology("0", repartition=[topic("r1")], sinks=["r2"]),
        subtopology("1", repartition=[topic("r2")], sinks=["r1"]),
    )
    with pytest.raises(ApiError) as raised:
        found(told, t=3)
    assert raised.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_join_gives_its_repartition_topic_the_partition_count_of_the_other_side() -> None:
    told = application(
        subtopology("0", "t", sinks=["r"]),
        subtopology("1", "u", repartition=[topic("r")], copartition=[((0,), (0,))]),
    )
    assert missing(found(told, t=2, u=6)) == {"r": 6}


def test_a_join_of_topics_of_different_sizes_is_refused() -> None:
    told = application(subtopology("0", "t", "u", copartition=[((0, 1), ())]))
    topics = found(told, t=2, u=6)
    assert topics.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert topics.detail == "Following topics do not have the same number of partitions: [{t=2, u=6}]"


def test_a_repartition_topic_with_a_set_count_must_match_the_other_side() -> None:
    told = application(
        subtopology("0", "t", sinks=["r"]),
        subtopology("1", "u", repartition=[topic("r", 3)], copartition=[((0,), (0,))]),
    )
    assert found(told, t=2, u=6).status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert missing(found(told, t=2, u=3)) == {"r": 3}


def test_copartitioned_flexible_repartition_topics_get_the_largest_count() -> None:
    told = application(
        subtopology("0", "t", sinks=["r1"]),
        subtopology("1", "u", sinks=["r2"]),
        subtopology("2", repartition=[topic("r1"), topic("r2")], copartition=[((), (0, 1))]),
    )
    assert missing(found(told, t=2, u=6)) == {"r1": 6, "r2": 6}


def test_a_subtopology_that_reads_nothing_is_refused() -> None:
    with pytest.raises(ApiError, match="No source topics found for subtopology 1"):
        found(application(subtopology("0", "t"), subtopology("1", changelogs=["c"])), t=1)


def test_a_repartition_topic_without_a_writer_is_refused() -> None:
    with pytest.raises(ApiError, match="never used as a sink topic"):
        found(application(subtopology("0", "t", repartition=[topic("r")])), t=1)


def test_the_order_of_topics_is_of_no_account() -> None:
    one = application(subtopology("0", "t", "u", copartition=[((0, 1), ())]), subtopology("1", "v"))
    other = application(subtopology("1", "v"), subtopology("0", "u", "t", copartition=[((1, 0), ())]))
    assert topology_of(one).is_same(topology_of(other))
    assert not topology_of(one).is_same(topology_of(application(subtopology("0", "t"))))


def test_only_the_first_of_many_names_are_listed() -> None:
    assert shortened_names(["b", "a"]) == "a, b"
    assert shortened_names("dabc") == "a, b, c and 1 additional topics"
