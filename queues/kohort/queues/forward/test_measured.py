"""What a worker's partitions bring, and when that is a reason to share them anew."""

from kohort.client.values import TopicPartition
from kohort.queues.forward.measured import REMEMBERED_MS, SAMPLE_MS, Measured
from kohort.queues.forward.sharing import Load, decode_loads

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def test_bytes_a_second_and_pushes_under_way_are_told() -> None:
    measured = Measured(300_000)
    measured.sample({ZERO: (0, 0.0)}, 0)
    measured.sample({ZERO: (50_000, 20_000.0)}, 10_000)
    assert decode_loads(measured.tell(10_000)) == {("t", 0): Load(5_000.0, 2.0)}


def test_what_has_gone_is_told_for_a_while() -> None:
    measured = Measured(300_000)
    measured.sample({ZERO: (0, 0.0)}, 0)
    measured.sample({ZERO: (10, 10.0)}, 10_000)
    measured.sample({ONE: (0, 0.0)}, 20_000)
    assert ("t", 0) in decode_loads(measured.tell(20_000))
    measured.sample({ONE: (0, 0.0)}, 10_001 + REMEMBERED_MS)
    assert ("t", 0) not in decode_loads(measured.tell(10_001 + REMEMBERED_MS))


def test_one_that_went_and_came_back_counts_from_its_return() -> None:
    measured = Measured(300_000)
    measured.sample({ZERO: (90_000, 10.0)}, 0)
    measured.sample({ZERO: (10, 1.0)}, 10_000)
    assert decode_loads(measured.tell(10_000)) == {}
    measured.sample({ZERO: (20_010, 1.0)}, 20_000)
    assert decode_loads(measured.tell(20_000)) == {("t", 0): Load(2_000.0, 0.0)}


def test_a_load_that_has_changed_is_a_reason_to_share_anew_but_not_too_often() -> None:
    measured = Measured(60_000)
    measured.sample({ZERO: (0, 0.0)}, 0)
    measured.sample({ZERO: (1_000_000, 0.0)}, 10_000)
    assert not measured.is_other_than_told(10_000), "the group was never joined"
    measured.tell(10_000)
    total = 1_000_000
    for at_ms in range(20_000, 60_001, SAMPLE_MS):
        total += 10_000_000
        measured.sample({ZERO: (total, 0.0)}, at_ms)
        assert not measured.is_other_than_told(at_ms)
    assert measured.is_other_than_told(70_000)
    measured.tell(70_000)
    assert not measured.is_other_than_told(140_000), "that is what was told"


def test_it_may_be_left_alone() -> None:
    measured = Measured(0)
    measured.sample({ZERO: (0, 0.0)}, 0)
    measured.tell(0)
    measured.sample({ZERO: (10**9, 0.0)}, 10_000)
    assert not measured.is_other_than_told(10**9)
