from random import Random

import pytest

from kohort.client.consumer_records import Assignments
from kohort.client.values import ConsumerRecord, TopicPartition
from kohort.client.workers.backlog import Backlog, Work
from kohort.client.workers.windows import Order

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(offset: int, key: bytes | None = None, partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, key, b"")


def started(backlog: Backlog) -> list[Work]:
    found = []
    while (work := backlog.start()) is not None:
        found.append(work)
    return found


def offsets(works: list[Work]) -> list[int]:
    return [each.record.offset for each in works]


def may_commit(backlog: Backlog) -> dict[int, int]:
    return {partition: each.offset for (_, partition), each in backlog.progress().items()}


def test_only_offsets_below_the_lowest_unfinished_record_are_committed() -> None:
    backlog = Backlog(Order.NONE, 100)
    backlog.add(record(each) for each in (5, 6, 7))
    five, six, seven = started(backlog)
    backlog.finish(six)
    assert may_commit(backlog) == {}
    backlog.finish(five)
    assert may_commit(backlog) == {0: 7}
    backlog.finish(seven)
    assert may_commit(backlog) == {0: 8}


def test_offsets_missing_in_a_compacted_log_do_not_delay_commits() -> None:
    backlog = Backlog(Order.NONE, 100)
    backlog.add([record(5), record(9)])
    first, _ = started(backlog)
    backlog.finish(first)
    assert may_commit(backlog) == {0: 9}


def test_a_committed_offset_is_not_committed_again() -> None:
    backlog = Backlog(Order.NONE, 100)
    backlog.add([record(5)])
    backlog.finish(*started(backlog))
    backlog.committed(backlog.progress())
    assert may_commit(backlog) == {}


def test_records_with_a_key_wait_for_each_other_and_others_do_not() -> None:
    backlog = Backlog(Order.KEY, 100)
    backlog.add([record(0, b"a"), record(1, b"b"), record(2, b"a"), record(3), record(4), record(5, b"a")])
    works = started(backlog)
    assert offsets(works) == [0, 1, 3, 4]
    backlog.finish(works[0])
    assert offsets(started(backlog)) == [2]


def test_the_same_key_in_two_partitions_is_two() -> None:
    backlog = Backlog(Order.KEY, 100)
    backlog.add([record(0, b"a"), record(0, b"a", partition=1)])
    assert len(started(backlog)) == 2


def test_partition_order_handles_one_record_at_a_time_in_each_partition() -> None:
    backlog = Backlog(Order.PARTITION, 100)
    backlog.add([record(0), record(1), record(0, partition=1)])
    works = started(backlog)
    assert [(each.record.partition, each.record.offset) for each in works] == [(0, 0), (1, 0)]
    backlog.finish(works[0])
    assert offsets(started(backlog)) == [1]


def test_a_record_that_was_given_up_holds_back_commits() -> None:
    backlog = Backlog(Order.NONE, 100)
    backlog.add([record(0), record(1), record(2)])
    first, second, third = started(backlog)
    backlog.finish(first)
    backlog.give_up(second)
    backlog.finish(third)
    assert may_commit(backlog) == {0: 1}
    assert backlog.unfinished([P0]) == 0


def test_a_long_window_is_paused_and_resumed_at_half_its_length() -> None:
    backlog = Backlog(Order.NONE, 4)
    backlog.add(record(each) for each in range(4))
    works = started(backlog)
    assert (backlog.to_pause(), backlog.to_pause()) == ([P0], []), "once"
    for each in works[1:]:
        backlog.finish(each)
    assert backlog.to_resume() == [], "the first record alone keeps the window open"
    backlog.finish(works[0])
    assert (backlog.is_holding_back, backlog.to_resume(), backlog.to_resume()) == (True, [P0], [])


def test_work_finished_after_a_revocation_does_not_count() -> None:
    backlog = Backlog(Order.KEY, 100)
    backlog.add([record(0, b"a"), record(1, b"a"), record(0, partition=1)])
    old, other = started(backlog)
    backlog.forget([P0])
    backlog.add([record(0, b"a")])
    (new,) = started(backlog)
    backlog.finish(old)
    assert (may_commit(backlog), backlog.unfinished([P0])) == ({}, 1)
    backlog.finish(new)
    assert may_commit(backlog) == {0: 1}
    backlog.finish(other)
    assert may_commit(backlog) == {0: 1, 1: 1}


def test_dropping_keeps_records_before_the_last_started_one() -> None:
    backlog = Backlog(Order.KEY, 100)
    backlog.add([record(0, b"a"), record(1, b"a"), record(2, b"b"), record(3, b"a"), record(4)])
    first, third = backlog.start(), backlog.start()
    assert first is not None
    assert third is not None
    backlog.drop_waiting([P0])
    assert backlog.unfinished([P0]) == 3, "records 0 and 2 run, 1 waits"
    backlog.finish(third)
    backlog.finish(first)
    for each in started(backlog):
        backlog.finish(each)
    assert (backlog.unfinished([P0]), may_commit(backlog)) == (0, {0: 3})


def test_dropping_all_starts_no_more_work_and_keeps_running_work() -> None:
    backlog = Backlog(Order.KEY, 100)
    backlog.add([record(0, b"a"), record(1, b"a"), record(2, b"b"), record(0, partition=1)])
    first = backlog.start()
    assert first is not None
    backlog.drop_waiting([P0], all_of_them=True)
    assert [each.record.partition for each in started(backlog)] == [1]
    backlog.finish(first)
    assert (started(backlog), may_commit(backlog)) == ([], {0: 1})


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("order", list(Order))
def test_nothing_is_committed_too_early_for_any_order_of_ends(seed: int, order: Order) -> None:
    random = Random(seed)
    backlog = Backlog(order, 10)
    coming = [record(each, random.choice((None, b"a", b"b"))) for each in range(100)]
    running: list[Work] = []
    done: set[int] = set()
    while len(done) < 100:
        choice = random.random()
        if choice < 0.3 and coming:
            backlog.add([coming.pop(0)])
        elif choice < 0.6 and (work := backlog.start()) is not None:
            assert order is not Order.PARTITION or not running
            key = work.record.key
            assert order is not Order.KEY or key is None or key not in {each.record.key for each in running}
            running.append(work)
        elif running:
            work = running.pop(random.randrange(len(running)))
            done.add(work.record.offset)
            backlog.finish(work)
        committable = may_commit(backlog).get(0, 0)
        assert set(range(committable)) <= done
        assert committable in {100, *range(100)} - done, "and nothing is committed too late"


def test_records_of_a_deleted_topic_are_not_committed_for_its_successor() -> None:
    backlog = Backlog(Order.NONE, 100)
    first = Assignments().with_next([P0, P1])
    backlog.polled(first)
    backlog.add([record(0), record(1), record(0, partition=1)])
    old = started(backlog)
    backlog.finish(old[0])
    assert backlog.progress().assignment_number == 1
    backlog.polled(first.with_next([P0]))
    backlog.add([record(0)])
    backlog.finish(old[1])
    backlog.finish(old[2])
    assert may_commit(backlog) == {1: 1}
    backlog.finish(*started(backlog))
    assert may_commit(backlog) == {0: 1, 1: 1}
    progress = backlog.progress()
    assert progress.assignment_number == progress.without([P0]).assignment_number == 2
    assert set(progress.without([P0])) == {P1}, "one that is refused keeps no other back"
    assert not progress.without([])
    assert not progress.without([P0, P1])


def test_a_paused_partition_resumes_when_its_topic_was_recreated() -> None:
    backlog = Backlog(Order.NONE, 3)
    first = Assignments().with_next([P0])
    backlog.polled(first)
    backlog.add(record(each) for each in range(3))
    assert backlog.to_pause() == [P0]
    backlog.polled(first)
    assert backlog.to_resume() == []
    backlog.polled(first.with_next([P0]))
    assert backlog.start() is None, "nobody could commit what is left of the old topic"
    assert backlog.to_resume() == [P0]
    assert backlog.to_resume() == []
