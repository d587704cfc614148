from uuid import UUID

from kohort.client.metadata import TopicMetadata
from kohort.client.positions import Positions
from kohort.client.values import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def test_who_stays_keeps_its_position_and_who_goes_is_asked_for_no_more() -> None:
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


def test_a_position_of_another_topic_of_the_name_does_not_count() -> None:
    first, second = UUID(int=1), UUID(int=2)
    positions = Positions()
    positions.assign([TopicPartition("t", 0), TopicPartition("u", 0)])
    for each in positions:
        each.seek(200)

    def told(topic_id: UUID) -> list[TopicPartition]:
        return positions.begin_anew(
            {"t": TopicMetadata("t", topic_id, is_internal=False, error=0, partitions={})}
        )

    assert told(first) == []
    assert told(UUID(int=0)) == [], "a broker that knows no ids"
    assert told(second) == [TopicPartition("t", 0)]
    (state,) = (each for each in positions if each.partition.topic == "t")
    assert (state.position, state.needs_offset, state.needs_commit) == (None, True, False)
    state.seek(3)
    assert told(first) == [], "a broker that has not heard of the newer one yet"
    assert told(second) == []
    assert positions.topic_ids(positions.partitions()) == {"t": second}
