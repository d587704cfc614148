"""Pushed in any order, committed without a gap: the backlog, by hand and at random."""

import sys
import threading
from random import Random

import pytest

from kohort.client.consumer_records import Assignments
from kohort.client.values import ConsumerRecord, OffsetAndMetadata, TopicPartition
from kohort.client.workers.windows import Order
from kohort.queues.forward.backlog import Backlog, Job
from kohort.queues.forward.verdict import Action, Verdict
from tests.repetitions import repetitions

ZERO = TopicPartition("t", 0)


def record(offset: int, key: bytes | None = None, partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, key, b"")


def filled(order: Order, *records: ConsumerRecord, window_max: int = 100) -> Backlog:
    backlog = Backlog(order, window_max)
    for each in records:
        backlog.add(each, due_ms=0, attempt=1)
    return backlog


def start_all(backlog: Backlog, now_ms: int = 0, route: str | None = "") -> list[Job]:
    found = []
    while (job := backlog.start(now_ms, route)) is not None:
        found.append(job)
    return found


def test_what_is_done_behind_a_gap_is_not_committed() -> None:
    backlog = filled(Order.NONE, *(record(each) for each in range(4)))
    first, second, third, _ = start_all(backlog)
    backlog.finish(second)
    backlog.finish(third)
    assert backlog.progress() == {}
    backlog.finish(first)
    assert backlog.progress() == {ZERO: OffsetAndMetadata(3)}
    backlog.committed(backlog.progress())
    assert backlog.progress() == {}
    assert (backlog.unfinished, backlog.uncommitted) == (1, 1)


def test_of_a_key_one_is_pushed_at_a_time_and_in_order() -> None:
    backlog = filled(Order.KEY, record(0, b"a"), record(1, b"a"), record(2, b"b"), record(3))
    running = start_all(backlog)
    assert [each.record.offset for each in running] == [0, 2, 3]
    backlog.again(running[0], due_ms=50, attempt=2)
    assert start_all(backlog, 49) == []
    (again,) = start_all(backlog, 50)
    assert (again.record.offset, again.attempt) == (0, 2)
    backlog.finish(again)
    assert [each.record.offset for each in start_all(backlog, 50)] == [1]


def test_a_verdict_waits_in_its_place_and_is_forgotten_with_the_next_attempt() -> None:
    backlog = filled(Order.NONE, record(0), record(1), window_max=2)
    first, second = start_all(backlog)
    backlog.finish(second)
    verdict = Verdict(Action.DEAD)
    backlog.see_to_later(first, due_ms=50, verdict=verdict)
    assert backlog.blockers() == []
    assert backlog.next_due_ms() is None
    assert backlog.next_due_ms(None) == 50
    assert start_all(backlog, 49, None) == []
    assert start_all(backlog, 50) == [], "it is not pushed"
    assert start_all(backlog, 50, None) == [first]
    assert (first.verdict, first.attempt) == (verdict, 1)
    backlog.again(first, due_ms=60, attempt=2)
    assert start_all(backlog, 60) == [first]
    assert (first.verdict, first.attempt) == (None, 2)


def test_a_partition_in_order_has_one_under_way() -> None:
    backlog = filled(Order.PARTITION, record(0), record(1), record(0, partition=1))
    assert [(each.record.partition, each.record.offset) for each in start_all(backlog)] == [(0, 0), (1, 0)]


def test_a_record_waits_for_its_time() -> None:
    backlog = Backlog(Order.NONE, 10)
    backlog.add(record(0), due_ms=500, attempt=2)
    backlog.add(record(1), due_ms=0, attempt=1)
    assert [each.record.offset for each in start_all(backlog, 499)] == [1]
    assert backlog.next_due_ms() == 500
    assert [each.record.offset for each in start_all(backlog, 500)] == [0]
    assert backlog.next_due_ms() is None


def test_who_holds_a_long_window_up_is_found_once() -> None:
    backlog = filled(Order.NONE, *(record(each) for each in range(10)), window_max=10)
    jobs = start_all(backlog)
    for each in jobs[1:5]:
        backlog.finish(each)
    assert backlog.blockers() == []
    backlog.finish(jobs[5])
    assert backlog.blockers() == [jobs[0]]
    assert backlog.blockers() == []
    backlog.finish(jobs[0])
    assert backlog.progress() == {ZERO: OffsetAndMetadata(6)}


def test_a_full_window_is_paused_until_half_of_it_is_done() -> None:
    backlog = filled(Order.NONE, *(record(each) for each in range(4)), window_max=4)
    assert backlog.to_pause() == [ZERO]
    assert backlog.to_pause() == []
    assert backlog.is_holding_back
    jobs = start_all(backlog)
    backlog.finish(jobs[0])
    assert backlog.to_resume() == []
    backlog.finish(jobs[1])
    assert backlog.to_resume() == [ZERO]


def test_another_thread_may_look_while_partitions_come_and_go() -> None:
    backlog = Backlog(Order.NONE, 10)
    failures: list[Exception] = []
    looked: list[int] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set() and not failures:
            try:
                looked.append(backlog.unfinished + backlog.uncommitted + backlog.is_holding_back)
            except RuntimeError as error:  # A dictionary that changed meanwhile.
                failures.append(error)

    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(3_000):
            backlog.add(record(0, partition=number), due_ms=0, attempt=1)
            if number >= 20:
                backlog.forget([TopicPartition("t", number - 20)])
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(before_s)
    assert looked
    assert failures == []


def test_what_is_given_up_is_not_begun_and_not_committed_any_more() -> None:
    backlog = filled(Order.NONE, record(0), record(1))
    job = backlog.start(0)
    assert job is not None
    backlog.close([ZERO])
    assert backlog.start(0) is None
    assert backlog.running([ZERO]) == 1
    backlog.forget([ZERO])
    backlog.add(record(0), 0, 1)
    assert not backlog.is_ours(job)
    backlog.finish(job)
    assert backlog.progress() == {}
    assert backlog.unfinished == 1


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("seed", range(repetitions(30, by_night=2_000)))
def test_any_order_of_answers_commits_exactly_what_is_done(seed: int, order: Order) -> None:
    random = Random(seed)
    backlog = Backlog(order, 1_000)
    keys = [random.choice([None, b"a", b"b", b"c"]) for _ in range(40)]
    done: set[int] = set()
    pushed: list[int] = []
    running: list[Job] = []
    added = now_ms = 0
    while len(done) < len(keys):
        now_ms += random.randint(0, 3)
        if added < len(keys) and random.random() < 0.4:
            backlog.add(record(added, keys[added]), now_ms + random.choice([0, 0, 5]), 1)
            added += 1
        if (job := backlog.start(now_ms)) is not None:
            running.append(job)
        if running and random.random() < 0.5:
            job = running.pop(random.randrange(len(running)))
            if random.random() < 0.3:
                backlog.again(job, now_ms + random.randint(0, 5), job.attempt + 1)
            else:
                backlog.finish(job)
                done.add(job.record.offset)
                pushed.append(job.record.offset)
        first_open = next(each for each in range(len(keys) + 1) if each not in done)
        for value in backlog.progress().values():
            assert value.offset == min(first_open, added)
    assert backlog.unfinished == backlog.uncommitted == 0
    if order is Order.PARTITION:
        assert pushed == sorted(pushed)
    if order is Order.KEY:
        for key in (b"a", b"b", b"c"):
            of_key = [each for each in pushed if keys[each] == key]
            assert of_key == sorted(of_key)


def test_what_was_polled_of_a_topic_before_it_was_made_anew_is_not_committed() -> None:
    backlog = Backlog(Order.NONE, 100)
    first = Assignments().with_next([ZERO])
    backlog.polled(first)
    for offset in range(3):
        backlog.add(record(offset), due_ms=0, attempt=1)
    backlog.finish(start_all(backlog)[0])
    assert backlog.progress() == {ZERO: OffsetAndMetadata(1)}
    backlog.polled(first.with_next([ZERO]))
    assert backlog.progress() == {}
    backlog.add(record(5), due_ms=0, attempt=1)
    (job,) = start_all(backlog)
    backlog.finish(job)
    assert backlog.progress() == {ZERO: OffsetAndMetadata(6)}
    assert backlog.progress().assignment_number == 2


def test_what_is_not_done_is_told_by_route_with_what_waits_for_its_time() -> None:
    backlog = Backlog(Order.NONE, 100)
    for offset, (due_ms, route) in enumerate([(0, ""), (50, ""), (50, "slow"), (100, "slow")]):
        backlog.add(record(offset), due_ms, 1, route)
    assert backlog.waiting_by_route(0) == {"": (2, 1), "slow": (2, 2)}
    assert backlog.waiting_by_route(50) == {"": (2, 0), "slow": (2, 1)}
    (first,) = start_all(backlog)
    backlog.finish(first)
    assert backlog.waiting_by_route(50) == {"": (1, 0), "slow": (2, 1)}


def test_a_record_that_is_first_in_a_half_full_window_holds_it() -> None:
    backlog = Backlog(Order.NONE, 10)
    for offset in range(4):
        backlog.add(record(offset), 0, 1, "slow")
    assert backlog.holding() == []
    backlog.add(record(4), 0, 1, "fast")
    assert [(each.route, each.record.offset) for each in backlog.holding()] == [("slow", 0)]


def test_records_that_wait_are_decided_on_without_a_push() -> None:
    backlog = Backlog(Order.NONE, 10)
    for offset, due_ms in enumerate((0, 0, 0, 50)):
        backlog.add(record(offset), due_ms, 1, "slow")
    begun = backlog.start(10, "slow")
    assert begun is not None
    waiting = backlog.waiting("slow", 10, "own")
    assert [each.record.offset for each in waiting] == [1, 2], "one is under way, one is not due"
    assert backlog.waiting("slow", 10, "t") == [], "the route's own topic is left alone"
    verdict = Verdict(Action.APART)
    for each in waiting:
        backlog.decide(each, verdict)
    assert backlog.start(10, "slow") is None
    assert [each.record.offset for each in (backlog.start(10, None), backlog.start(10, None)) if each] == [
        1,
        2,
    ]
    assert backlog.waiting("slow", 10, "own") == []
    assert backlog.unfinished_of("t") == 4
