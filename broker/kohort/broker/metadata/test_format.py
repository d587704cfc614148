"""The metadata file's lines: those of a broker alone are as they always were, others lose nothing."""

from uuid import UUID

import msgspec

from kohort.broker.metadata.format import Encoder, Stored, decode
from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.metadata.snapshot import TopicState

TOPIC_ID = UUID(int=7)
ALONE = PartitionState(0, leader=1, leader_epoch=4, replicas=(1,), isr=(1,), partition_epoch=9)
LINE = (
    b'{"name":"orders","topic_id":"00000000-0000-0000-0000-000000000007",'
    b'"partitions":[[0,1,4,[1],[1],9]],"configs":{"retention.ms":"5"}}'
)


def stored(*partitions: PartitionState) -> Stored:
    return Stored(topics=(TopicState("orders", TOPIC_ID, partitions, {"retention.ms": "5"}),))


def test_a_single_broker_writes_the_unchanged_line_format() -> None:
    written = Encoder().encode(stored(ALONE))
    assert written.splitlines()[2] == LINE
    assert decode(written) == stored(ALONE)


def test_cluster_fields_of_a_partition_are_stored() -> None:
    replicated = PartitionState(
        index=1,
        leader=3,
        leader_epoch=4,
        replicas=(3, 1, 2),
        isr=(3,),
        partition_epoch=9,
        adding=(2,),
        removing=(1,),
        elr=(1,),
        last_known_elr=(2,),
        directories=(UUID(int=1), UUID(int=2), UUID(int=3)),
    )
    for each in (replicated, msgspec.structs.replace(ALONE, last_known_elr=(2,))):
        assert decode(Encoder().encode(stored(ALONE, each))) == stored(ALONE, each)
