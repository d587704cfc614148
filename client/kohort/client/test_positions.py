from uuid import UUID

from kohort.client.metadata import TopicMetadata
from kohort.client.positions import Positions
from kohort.client.values import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_kept_partition_keeps_its_position_and_a_revoked_one_is_dropped() -> None:
    positions = Positions()
    positions.assign([ZERO, ONE])
    stays, goes = positions.get(ZERO), positions.get(ONE)
    stays.seek(5)
    goes.seek(7)
    fetched = goes.stand
    positions.assign([ZERO])
    assert (positions.get(ZERO), stays.position) == (stays, 5)
    assert goes.stand is not fetched, "what was fetched is void"
    assert goes.fetch_offset is None, "a fetch that was planned already leaves it out"
    positions.assign([ZERO, ONE])
    assert positions.get(ONE).position is None, "it is looked up anew"


def tell(positions: Positions, topic_id: UUID) -> list[TopicPartition]:
    return positions.begin_anew(
        {"t": TopicMetadata("t", topic_id, is_internal=False, error=0, partitions={})}
    )


def test_a_position_in_a_recreated_topic_does_not_count() -> None:
    first, second = UUID(int=1), UUID(int=2)
    positions = Positions()
    positions.assign([TopicPartition("t", 0), TopicPartition("u", 0)])
    for each in positions:
        each.seek(200)

    def told(topic_id: UUID) -> list[TopicPartition]:
        return tell(positions, topic_id)

    assert told(first) == []
    assert told(UUID(int=0)) == [], "a broker that knows no ids"
    assert told(second) == [TopicPartition("t", 0)]
    (state,) = (each for each in positions if each.partition.topic == "t")
    assert (state.position, state.needs_offset, state.needs_commit) == (None, True, False)
    state.seek(3)
    assert told(first) == [], "a broker that has not heard of the newer one yet"
    assert told(second) == []
    assert positions.topic_ids(positions.partitions()) == {"t": second}


def test_a_topic_hidden_by_a_lagging_broker_continues_at_its_position() -> None:
    older, newer = UUID(int=1), UUID(int=2)
    positions = Positions()
    positions.assign([ZERO])
    state = positions.get(ZERO)
    assert tell(positions, newer) == []
    state.seek(100, 3, validated_epoch=4)
    fetched = state.stand.fetching
    assert tell(positions, older) == [ZERO], "nobody can tell that it is the older one"
    assert state.needs_offset
    state.seek(7)
    assert tell(positions, newer) == [], "it is not refused yet"
    state.is_topic_refused = True
    assert tell(positions, newer) == [ZERO]
    assert (state.position, state.fetch_offset, state.validated_epoch) == (100, 100, 4)
    assert state.stand.fetching is not fetched, "what was fetched before is void"
    assert positions.topic_ids([ZERO]) == {"t": newer}
    state.is_topic_refused = True
    assert tell(positions, older) == [ZERO]
    assert state.position == 7
    assert tell(positions, UUID(int=3)) == [ZERO]
    assert state.needs_offset, "a third one begins by auto_offset_reset"


def test_a_seek_counts_for_either_topic_of_the_name() -> None:
    older, newer = UUID(int=1), UUID(int=2)
    positions = Positions()
    positions.assign([ZERO])
    state = positions.get(ZERO)
    tell(positions, newer)
    state.seek(100)
    tell(positions, older)
    state.seek(5)
    state.sought()
    state.is_topic_refused = True
    assert tell(positions, newer) == [ZERO]
    assert state.position == 5


def test_the_memory_of_recreated_topics_is_bounded() -> None:
    positions = Positions()
    positions.assign([ZERO])
    for number in range(1, 1_000):
        tell(positions, UUID(int=number))
    assert len(positions.get(ZERO).topics_before) <= 10
