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
