"""A share session names what has changed alone."""

from uuid import UUID

from kohort.client.share.acknowledgements import Batch
from kohort.client.share.node_session import (
    EPOCH_MAX,
    OPENING,
    NodeSession,
    TopicIdPartition,
    acknowledge_topics,
)

T, U = UUID(int=1), UUID(int=2)
PENDING = (Batch(1, 3, (1,)),)


def named(
    session: NodeSession, *wanted: TopicIdPartition, pending: TopicIdPartition | None = None
) -> tuple[set[TopicIdPartition], set[TopicIdPartition]]:
    topics, forgotten = session.fetch(wanted, {} if pending is None else {pending: PENDING})
    return (
        {(topic.topic_id, each.partition_index) for topic in topics for each in topic.partitions},
        {(topic.topic_id, each) for topic in forgotten for each in topic.partitions},
    )


def test_known_partitions_are_not_named_again_and_unwanted_ones_are_forgotten() -> None:
    session = NodeSession()
    assert session.epoch == OPENING
    assert named(session, (T, 0), (U, 1)) == ({(T, 0), (U, 1)}, set())
    session.advance()
    assert (session.epoch, session.is_open, session.has_partitions) == (1, True, True)
    assert named(session, (T, 0), (U, 1)) == (set(), set())
    assert named(session, (T, 0)) == (set(), {(U, 1)})
    assert named(session, (T, 0), pending=(T, 0)) == ({(T, 0)}, set())
    session.reset()
    assert named(session, (T, 0)) == ({(T, 0)}, set()), "another session knows nothing"


def test_session_epochs_wrap_to_one() -> None:
    session = NodeSession()
    session.epoch = EPOCH_MAX
    session.advance()
    assert session.epoch == 1


def test_acknowledgements_are_named_by_topic_and_partition() -> None:
    (first, second) = acknowledge_topics({(U, 1): PENDING, (T, 0): PENDING})
    assert (first.topic_id, second.topic_id) == (T, U)
    (batch,) = second.partitions[0].acknowledgement_batches
    assert (batch.first_offset, batch.last_offset, batch.acknowledge_types) == (1, 3, (1,))
