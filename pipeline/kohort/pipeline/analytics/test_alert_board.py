"""What is told, and what is not told twice."""

from kohort.client import TopicPartition
from kohort.pipeline.analytics.alert_board import AlertBoard, StormAlert, VerdictAlert
from kohort.pipeline.analytics.storms import Rebalance

AIR = TopicPartition("air", 0)
INTERVAL_MS = 10_000


def verdicts(board: AlertBoard, end: int, now_ms: int) -> list[tuple[str, str]]:
    found = board.look({AIR: end}, now_ms)
    return [(each.before, each.verdict) for each in found if isinstance(each, VerdictAlert)]


def test_a_group_that_falls_silent_is_told_once_and_again_when_it_is_back() -> None:
    board = AlertBoard(INTERVAL_MS)
    board.commit("g", AIR, 10, 1_000)
    assert verdicts(board, 20, 2_000) == []
    late_ms = 2_000 + 11 * INTERVAL_MS
    assert verdicts(board, 25, late_ms) == [("OK", "STOP")]
    assert verdicts(board, 30, late_ms + INTERVAL_MS) == []
    board.commit("g", AIR, 30, late_ms + INTERVAL_MS)
    assert verdicts(board, 30, late_ms + 2 * INTERVAL_MS) == [("STOP", "OK")]


def test_a_group_that_is_too_slow_is_told() -> None:
    board = AlertBoard(INTERVAL_MS)
    told = []
    for number in range(4):
        board.commit("g", AIR, 10 * number, number * INTERVAL_MS)
        told += verdicts(board, 20 * number + 5, number * INTERVAL_MS)
    assert told == [("OK", "WARN")]


def test_an_offset_that_was_removed_is_forgotten() -> None:
    board = AlertBoard(INTERVAL_MS)
    board.commit("g", AIR, 10, 1_000)
    board.commit("g", AIR, None, 0)
    assert board.partitions == set()
    assert board.look({AIR: 100}, 10**9) == []


def test_a_partition_whose_end_is_not_known_is_passed_over() -> None:
    board = AlertBoard(INTERVAL_MS)
    board.commit("g", AIR, 10, 1_000)
    assert board.look({}, 10**9) == []


def test_a_storm_is_told_once_however_long_it_lasts() -> None:
    board = AlertBoard(INTERVAL_MS)
    told = []
    for number in range(8):
        at_ms = number * 5_000
        board.rebalance("g", Rebalance(at_ms, 1_000, "a member joined", "c"))
        told += board.look({}, at_ms + 1_000)
    (storm,) = told
    assert isinstance(storm, StormAlert)
    assert (storm.rebalances, storm.causes) == (4, {"a member joined": 4})


def test_a_second_storm_is_told_too() -> None:
    board = AlertBoard(INTERVAL_MS)
    told = 0
    for begin_ms in (0, 3_600_000):
        for number in range(4):
            board.rebalance("g", Rebalance(begin_ms + number * 5_000, 1_000, "a member left"))
        told += len(board.look({}, begin_ms + 20_000))
    assert told == 2
    assert board.look({}, 7_200_000) == []
