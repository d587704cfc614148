"""One partition's markers: what is due when, what is committed, and what a takeover finds again."""

from kohort.client.values import ConsumerRecord
from kohort.queues.kmq.markers import END, MarkerKey, Start
from kohort.queues.kmq.tracking import Permission, TrackedPartition

AFTER_MS, IDLE_MS = 1_000, 100


def marker(
    marker_offset: int, offset: int, value: Start | None, at_ms: int, partition: int = 0
) -> ConsumerRecord:
    key = MarkerKey(partition, offset).encode()
    return ConsumerRecord("m", 0, marker_offset, at_ms, key, END if value is None else value.encode())


class Markers:
    """A log of markers, and a partition that reads it."""

    def __init__(self, begin: int = 0, end: int = 0) -> None:
        self.state = TrackedPartition(0, IDLE_MS)
        self.state.reach(begin)
        self.state.begin_at(end)
        self.next_offset = begin

    def start(self, offset: int, at_ms: int, after_ms: int = AFTER_MS) -> None:
        self._take(offset, Start(after_ms), at_ms)

    def end(self, offset: int, at_ms: int) -> None:
        self._take(offset, None, at_ms)

    def _take(self, offset: int, value: Start | None, at_ms: int) -> None:
        self.state.take([marker(self.next_offset, offset, value, at_ms)], at_ms)
        self.next_offset += 1

    def due(self, now_ms: int, committed: int = 1_000, most: int = 100) -> list[int]:
        if not self.state.wants_permission(now_ms):
            return []
        self.state.permit(Permission(committed, self.state.position))
        return self.state.take_due(now_ms, most)


def test_a_record_without_an_end_is_due_once_when_its_time_is_over() -> None:
    markers = Markers()
    markers.start(5, at_ms=0)
    assert markers.due(AFTER_MS - 1) == []
    assert markers.due(AFTER_MS) == [5]
    assert markers.due(AFTER_MS) == []
    assert markers.state.needed_offset == 0
    markers.end(5, at_ms=AFTER_MS)
    assert (markers.state.open, markers.state.needed_offset) == (0, 2)


def test_an_ended_record_is_never_due() -> None:
    markers = Markers()
    markers.start(5, at_ms=0)
    markers.end(5, at_ms=1)
    assert markers.due(10 * AFTER_MS) == []


def test_time_is_the_newest_markers_until_none_was_seen_for_a_while() -> None:
    markers = Markers()
    markers.start(1, at_ms=0)
    markers.state.take([marker(1, 2, Start(AFTER_MS), 500)], now_ms=5_000)
    assert markers.state.clock(5_000 + IDLE_MS - 1) == 500  # By the wall clock 1 is long due.
    assert markers.due(5_000 + IDLE_MS - 1) == []
    assert markers.due(5_000 + IDLE_MS) == [1, 2]


def test_the_clock_never_goes_back_with_a_marker_that_is_older() -> None:
    markers = Markers()
    markers.start(1, at_ms=AFTER_MS)
    markers.state.take([marker(1, 2, Start(0), 5)], now_ms=AFTER_MS)
    assert markers.state.clock(AFTER_MS) == AFTER_MS


def test_nothing_is_due_before_the_log_was_read_to_the_end_it_had() -> None:
    markers = Markers(end=2)
    markers.start(5, at_ms=0)
    assert markers.due(10 * AFTER_MS) == []
    markers.end(5, at_ms=0)
    assert markers.due(10 * AFTER_MS) == []
    assert markers.state.is_caught_up


def test_what_the_group_has_not_committed_is_left_to_it() -> None:
    markers = Markers()
    markers.start(5, at_ms=0)
    markers.start(6, at_ms=0)
    assert markers.due(AFTER_MS, committed=6) == [5]
    assert markers.state.held_back(AFTER_MS, committed=6) == 1
    assert markers.due(AFTER_MS, committed=7) == [6]


def test_a_permission_holds_once_the_markers_up_to_it_were_read() -> None:
    markers = Markers()
    markers.start(5, at_ms=0)
    markers.state.permit(Permission(committed=6, marker_end=2))
    assert markers.state.take_due(AFTER_MS, 9) == []
    markers.end(5, at_ms=AFTER_MS)
    assert markers.state.take_due(2 * AFTER_MS, 9) == []
    markers.start(7, at_ms=AFTER_MS)
    assert markers.due(9 * AFTER_MS) == [7]


def test_the_newest_start_marker_counts_for_more_time_and_for_less() -> None:
    markers = Markers()
    markers.start(1, at_ms=0)
    markers.start(2, at_ms=0)
    markers.start(1, at_ms=900)
    markers.start(2, at_ms=900, after_ms=0)
    assert markers.due(AFTER_MS) == [2]
    assert markers.due(900 + AFTER_MS) == [1]
    assert markers.state.needed_offset == 2


def test_what_could_not_be_delivered_is_due_again_and_suspect() -> None:
    markers = Markers()
    markers.start(1, at_ms=0)
    assert markers.due(AFTER_MS) == [1]
    assert markers.state.suspects([1]) == []
    markers.state.give_back([1])
    assert markers.due(AFTER_MS) == [1]
    assert markers.state.suspects([1]) == [1]


def test_what_no_topic_takes_is_tried_again_later_and_keeps_no_other_waiting() -> None:
    markers = Markers()
    markers.start(1, at_ms=0)
    markers.start(2, at_ms=0)
    assert markers.due(AFTER_MS) == [1, 2]
    markers.state.give_back([1], not_before_ms=5 * AFTER_MS)
    markers.state.give_back([2])
    assert markers.due(AFTER_MS) == [2]
    assert markers.due(5 * AFTER_MS - 1) == []
    assert markers.due(5 * AFTER_MS) == [1]


def test_what_was_overdue_at_a_takeover_may_have_been_delivered_by_whoever_died() -> None:
    markers = Markers(end=2)
    markers.start(1, at_ms=0)
    markers.start(2, at_ms=0, after_ms=10_000_000)
    markers.start(3, at_ms=0)
    assert markers.due(AFTER_MS) == [1, 3]
    assert markers.state.suspects([1, 3]) == [1]


def test_the_lowest_come_first_and_no_more_than_asked_for() -> None:
    markers = Markers()
    for offset in (9, 3, 7):
        markers.start(offset, at_ms=0)
    assert markers.due(AFTER_MS, most=2) == [3, 9]
    assert markers.due(AFTER_MS, most=2) == [7]


def test_a_marker_of_another_partition_is_passed_over() -> None:
    markers = Markers()
    assert markers.state.take([marker(0, 1, Start(0), 0, partition=4)], 0) == []
    assert (markers.state.open, markers.state.ignored, markers.state.position) == (0, 1, 1)


def test_many_that_end_leave_nothing_behind() -> None:
    markers = Markers()
    for offset in range(10_000):
        markers.start(offset, at_ms=offset)
        markers.end(offset, at_ms=offset)
    assert sum(map(len, markers.state._runs)) < 3_000
    assert markers.state.needed_offset == 20_000


def test_the_oldest_open_record_is_the_one_that_was_taken_first() -> None:
    markers = Markers()
    assert markers.state.oldest_marked_ms is None
    markers.start(5, at_ms=10)
    markers.start(6, at_ms=20)
    assert markers.state.oldest_marked_ms == 10
    markers.start(5, at_ms=30)
    assert markers.state.oldest_marked_ms == 20, "one that has more time counts from then on"
    markers.end(6, at_ms=40)
    assert markers.state.oldest_marked_ms == 30
    markers.end(5, at_ms=50)
    assert markers.state.oldest_marked_ms is None


def test_what_is_no_marker_is_passed_over_and_told() -> None:
    markers = Markers()
    records = [
        marker(0, 1, Start(0), 0),
        ConsumerRecord("m", 0, 1, 0, b"short", b"\x00"),
        marker(2, 1, None, 0),
    ]
    (fault,) = markers.state.take(records, 0)
    assert fault.startswith("at 1: a marker's key has 12 bytes")
    assert (markers.state.open, markers.state.ignored, markers.state.position) == (0, 1, 3)


def test_runs_of_markers_that_end_out_of_order_leave_the_others_due() -> None:
    markers = Markers()
    starts = [marker(offset, offset, Start(AFTER_MS), 0) for offset in range(100)]
    markers.state.take(starts, 0)
    assert len(markers.state._runs) == 1
    markers.state.take([marker(100 + n, offset, None, 0) for n, offset in enumerate(range(99, 0, -2))], 0)
    markers.next_offset = 150
    assert markers.state.needed_offset == 0
    assert markers.due(AFTER_MS, committed=50) == list(range(0, 50, 2))
    assert markers.due(AFTER_MS, committed=60) == list(range(50, 60, 2))
    markers.start(5, at_ms=AFTER_MS)  # The client of 5 has not heard that it comes again.
    assert markers.state.open == 51


def test_a_record_that_is_taken_anew_needs_its_newest_marker_alone() -> None:
    markers = Markers()
    markers.start(5, at_ms=0)
    markers.start(6, at_ms=1)
    markers.start(5, at_ms=2)
    assert (markers.state.needed_offset, markers.state.oldest_marked_ms) == (1, 1)
    markers.end(6, at_ms=3)
    assert (markers.state.needed_offset, markers.state.oldest_marked_ms) == (2, 2)


def test_what_is_released_after_it_came_again_may_be_there_twice_and_is_looked_for() -> None:
    markers = Markers()
    markers.start(5, at_ms=0)
    markers.start(6, at_ms=0)
    assert markers.due(AFTER_MS) == [5, 6]
    markers.end(5, at_ms=AFTER_MS)  # The tracker's.
    markers.start(5, at_ms=AFTER_MS, after_ms=0)  # Of a client that took too long.
    markers.start(7, at_ms=AFTER_MS, after_ms=0)
    assert markers.due(AFTER_MS) == [5, 7]
    assert markers.state.suspects([5, 7]) == [5]


def test_a_takeover_suspects_what_the_group_had_committed_before_and_is_started_after() -> None:
    markers = Markers()
    markers.state.begin_at(0, 6)
    markers.start(5, at_ms=0, after_ms=0)
    markers.start(6, at_ms=0, after_ms=0)
    assert markers.due(AFTER_MS) == [5, 6]
    assert markers.state.suspects([5, 6]) == [5]
