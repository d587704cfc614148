from kohort.client.assignors import TopicCounts
from kohort.client.metadata import Metadata
from kohort.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def known(*racks: str | None) -> Metadata:
    """What a client knows of a topic whose partitions have two neighbouring brokers as replicas."""
    brokers = tuple(broker(each, rack) for each, rack in enumerate(racks))
    partitions = tuple(
        MetadataResponsePartition(
            error_code=0,
            partition_index=each,
            leader_id=each,
            replica_nodes=(each, each + 1),
            isr_nodes=(each,),
        )
        for each in range(len(racks))
    )
    topic = MetadataResponseTopic(error_code=0, name="t", partitions=partitions)
    metadata = Metadata()
    metadata.update(MetadataResponse(brokers=brokers, topics=(topic,)), ("t",), asked_ms=1)
    return metadata


def broker(node_id: int, rack: str | None) -> MetadataResponseBroker:
    return MetadataResponseBroker(node_id=node_id, host="h", port=9092, rack=rack)


def test_partitions_have_the_racks_of_their_replicas() -> None:
    racks = (frozenset({"a", "b"}), frozenset("b"))
    assert known("a", "b").partition_counts() == TopicCounts({"t": 2}, {"t": racks}), (
        "there is no third broker"
    )


def test_without_racks_there_are_only_counts() -> None:
    assert known(None, None, None).partition_counts() == TopicCounts({"t": 3})


def test_a_broker_without_a_rack_among_others_adds_none() -> None:
    assert known("a", None).partition_counts().racks == {"t": (frozenset("a"), frozenset())}


def test_an_absent_broker_keeps_its_rack() -> None:
    metadata = known("a", "b")
    before = metadata.partition_counts()
    metadata.update(MetadataResponse(brokers=(broker(0, "a"),), topics=()), (), asked_ms=2)
    assert metadata.partition_counts() == before
    assert set(metadata.nodes) == {0}


def test_a_broker_that_returns_in_another_rack_has_the_new_rack() -> None:
    metadata = known("a", "b")
    metadata.update(MetadataResponse(brokers=(broker(0, "a"), broker(1, "c")), topics=()), (), asked_ms=2)
    assert metadata.partition_counts().racks == {"t": (frozenset("ac"), frozenset("c"))}
