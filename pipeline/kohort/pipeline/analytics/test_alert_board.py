"""Which alerts are sent, and that none is sent twice."""

from kohort.client import TopicPartition
from kohort.pipeline.analytics.alert_board import AlertBoard, BadPartition, StormAlert, VerdictAlert
from kohort.pipeline.analytics.storms import Rebalance

AIR = TopicPartition("air", 0)
SEA = [TopicPartition("sea", number) for number in range(12)]
INTERVAL_MS = 10_000


def verdicts(board: AlertBoard, end: int, now_ms: int) -> list[tuple[str, str]]:
    found = board.look({AIR: end}, now_ms)
    return [(each.before, each.verdict) for each in found if isinstance(each, VerdictAlert)]


def test_a_group_that_stops_is_reported_once_and_again_when_it_recovers() -> None:
    board = AlertBoard(INTERVAL_MS)
    board.commit("g", AIR, 10, 1_000)
    assert verdicts(board, 20, 2_000) == []
    late_ms = 2_000 + 11 * INTERVAL_MS
    assert verdicts(board, 25, late_ms) == [("OK", "STOP")]
    assert verdicts(board, 30, late_ms + INTERVAL_MS) == []
    board.commit("g", AIR, 30, late_ms + INTERVAL_MS)
    assert verdicts(board, 30, late_ms + 2 * INTERVAL_MS) == [("STOP", "OK")]


def test_a_group_that_is_too_slow_is_reported() -> None:
    board = AlertBoard(INTERVAL_MS)
    told = []
    for number in range(4):
        board.commit("g", AIR, 10 * number, number * INTERVAL_MS)
        told += verdicts(board, 20 * number + 5, number * INTERVAL_MS)
    assert told == [("OK", "WARN")]


def test_a_group_is_reported_once_for_any_number_of_stopped_partitions() -> None:
    board = AlertBoard(INTERVAL_MS)
    for number, each in enumerate(SEA):
        board.commit("g", each, 10, number)
    board.commit("g", AIR, 10, 0)
    ends = {each: 11 + each.partition for each in SEA} | {AIR: 10}
    assert board.look(ends, 0) == []
    (told,) = board.look(ends, 11 * INTERVAL_MS)
    assert isinstance(told, VerdictAlert)
    assert (told.before, told.verdict, told.lag, told.partition_count) == ("OK", "STOP", 78, 12)
    assert told.partitions == tuple(BadPartition("sea", each, each + 1, 10) for each in range(11, 1, -1))
    for each in SEA[1:]:
        board.commit("g", each, 30, 11 * INTERVAL_MS)
    assert board.look(ends, 12 * INTERVAL_MS) == [], "one of them stands still yet"
    board.commit("g", SEA[0], 30, 12 * INTERVAL_MS)
    (told,) = board.look(ends, 13 * INTERVAL_MS)
    assert isinstance(told, VerdictAlert)
    assert (told.before, told.verdict, told.lag, told.partitions) == ("STOP", "OK", 0, ())


def test_a_group_that_stopped_before_the_start_is_reported_at_once() -> None:
    now_ms = 100 * INTERVAL_MS
    board = AlertBoard(INTERVAL_MS)
    board.commit("stopped", AIR, 10, 0)
    board.commit("busy", AIR, 10, now_ms - INTERVAL_MS)
    board.commit("done", AIR, 20, 0)
    board.was_behind({AIR: 20}, now_ms - board.patience_ms)
    assert [each.group_id for each in board.look({AIR: 25}, now_ms + 1)] == ["stopped"]


def test_an_offset_that_was_removed_is_forgotten() -> None:
    board = AlertBoard(INTERVAL_MS)
    board.commit("g", AIR, 10, 1_000)
    board.commit("g", AIR, None, 0)
    assert board.partitions == set()
    assert board.look({AIR: 100}, 10**9) == []


def test_a_group_whose_offsets_were_deleted_is_a_new_one_when_it_returns() -> None:
    board = AlertBoard(INTERVAL_MS)
    board.commit("g", AIR, 10, 0)
    board.was_behind({AIR: 20}, 0)
    late_ms = 11 * INTERVAL_MS
    assert verdicts(board, 20, late_ms) == [("OK", "STOP")]
    board.commit("g", AIR, None, 0)
    assert verdicts(board, 20, late_ms) == []
    board.commit("g", AIR, 20, late_ms)
    assert verdicts(board, 20, late_ms) == [], "nobody was told of this one"


def test_a_partition_with_an_unknown_end_is_skipped() -> None:
    board = AlertBoard(INTERVAL_MS)
    board.commit("g", AIR, 10, 1_000)
    assert board.look({}, 10**9) == []


def test_a_storm_is_reported_once() -> None:
    board = AlertBoard(INTERVAL_MS)
    told = []
    for number in range(8):
        at_ms = number * 5_000
        board.rebalance("g", Rebalance(at_ms, 1_000, "a member joined", "c"))
        told += board.look({}, at_ms + 1_000)
    (storm,) = told
    assert isinstance(storm, StormAlert)
    assert (storm.rebalances, storm.causes) == (4, {"a member joined": 4})


def test_a_second_storm_is_reported_too() -> None:
    board = AlertBoard(INTERVAL_MS)
    told = 0
    for begin_ms in (0, 3_600_000):
        for number in range(4):
            board.rebalance("g", Rebalance(begin_ms + number * 5_000, 1_000, "a member left"))
        told += len(board.look({}, begin_ms + 20_000))
    assert told == 2
    assert board.look({}, 7_200_000) == []
