from kohort.broker.explain.observed.events import Departure, ObservedMember, OffsetMovedOn, OwnedPartition
from kohort.observe.facts import Facts
from kohort.observe.records import Records
from kohort.observe.standstills import Standstills
from kohort.observe.test_records import Log

WHERE = ("t", 0)


def gone(offset: int, end_offset: int = 900) -> list[Departure]:
    return [Departure(ObservedMember("m", "c", "/h"), owned=(OwnedPartition(*WHERE, offset, end_offset),))]


def stuck(times: int) -> Log:
    """Return the log of a group whose offset stands at 117 while so many members are gone."""
    log = Log(Facts(knows_all_groups=True))
    lose(log, 1)
    log.commit(0, 117)
    lose(log, times)
    return log


def lose(log: Log, times: int) -> None:
    """Have the member that owns partition 0 gone, again and again."""
    for _ in range(times):
        number = log.records.groups["g"].snapshot.generation_id if log.records.groups else 0
        log.generation(number + 1, {f"a~{number}": [0], "b": [1]})
        log.now_ms += 5_000


def moves(log: Log) -> list[OffsetMovedOn]:
    return [each for each in log.events() if isinstance(each, OffsetMovedOn)]


def test_an_offset_that_moves_after_three_members_were_gone_is_told_once() -> None:
    log = stuck(3)
    log.commit(0, 117)
    assert moves(log) == []
    log.commit(0, 118)
    log.commit(0, 119)
    told = OffsetMovedOn(at_ms=log.now_ms, topic="t", partition=0, before=117, after=118, departures=3)
    assert moves(log) == [told]


def test_two_members_that_were_gone_are_no_standstill() -> None:
    log = stuck(2)
    log.commit(0, 118)
    assert moves(log) == []


def test_a_standstill_is_stored_with_its_group() -> None:
    log = stuck(3)
    ((_, state, _),) = log.records.drain()
    assert state is not None
    log.records = Records(log.records.facts)
    log.records.restore("g", state)
    log.commit(0, 118)
    (told,) = moves(log)
    assert (told.before, told.departures) == (117, 3)


def test_the_first_offset_of_all_ends_a_standstill_too() -> None:
    log = Log(Facts(knows_all_groups=True))
    lose(log, 4)
    log.commit(0, 5)
    (told,) = moves(log)
    assert (told.before, told.after, told.departures) == (-1, 5, 3)


def test_an_offset_that_goes_back_does_not_end_it_and_one_that_is_removed_is_forgotten() -> None:
    stood = Standstills()
    for _ in range(3):
        stood.note(gone(117))
    assert stood.moved_on(WHERE, 50, 1) is None
    again = Standstills(stood.saved())
    assert again.moved_on(WHERE, 118, 2) is not None
    assert not again
    stood.forget(WHERE)
    assert stood.moved_on(WHERE, 118, 2) is None


def test_a_partition_without_records_left_says_nothing() -> None:
    stood = Standstills()
    stood.note(gone(900))
    assert not stood
