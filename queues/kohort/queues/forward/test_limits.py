"""How much a destination gets at once: by its latency, by a rate, and not at all while it is in trouble."""

import pytest

from kohort.queues.forward.limits import Breaker, Circuit, Concurrency, Rate
from kohort.queues.forward.verdict import Action, of_grpc, of_http


def test_the_limit_grows_while_answers_are_quick_and_all_of_it_is_used() -> None:
    limit = Concurrency(most=50)
    for _ in range(2_000):
        limit.answered(10, running=limit.limit)
    assert limit.limit == 50
    idle = Concurrency(most=50)
    for _ in range(2_000):
        idle.answered(10, running=1)
    assert idle.limit == 8


def test_a_quick_start_reaches_a_hundred_within_a_hundred_answers() -> None:
    limit = Concurrency(most=500)
    for _ in range(100):
        limit.answered(100, running=limit.limit)
    assert limit.limit == 108


def test_the_limit_stays_where_more_only_takes_longer() -> None:
    """A service that works on ten at once: whatever is more waits there."""
    limit = Concurrency(most=500)
    for _ in range(5_000):
        limit.answered(20 * max(1, limit.limit / 10), running=limit.limit)
    assert 10 <= limit.limit <= 30


def test_failures_cut_the_limit_once_a_second_and_never_to_nothing() -> None:
    limit = Concurrency(most=10)
    for _ in range(50):
        limit.failed(now_ms=0)
    assert limit.limit == 5
    for second in range(1, 50):
        limit.failed(now_ms=1_000 * second)
    assert limit.limit == 1


def test_a_rate_lets_so_many_begin_in_a_second() -> None:
    rate, now_ms, begun = Rate(100), 0.0, 0
    while now_ms < 10_000:
        wait_ms = rate.wait_ms(now_ms)
        if wait_ms:
            now_ms += wait_ms
        else:
            rate.take()
            begun += 1
    assert 1_000 <= begun <= 1_020
    assert Rate(0).wait_ms(0) == 0


def test_a_circuit_opens_after_failures_in_a_row_and_closes_with_a_success() -> None:
    breaker = Breaker(failures_max=3, first_ms=100, most_ms=300)
    for _ in range(2):
        breaker.failed(0)
    breaker.succeeded()
    for _ in range(3):
        assert breaker.wait_ms(0, running=9) == 0
        breaker.failed(0)
    assert breaker.wait_ms(40, running=0) == 60
    assert breaker.wait_ms(100, running=0) == 0
    assert breaker.state is Circuit.HALF_OPEN
    assert breaker.wait_ms(100, running=1) > 0
    for waited_ms in (200, 300, 300):
        breaker.failed(1_000)
        assert breaker.wait_ms(1_000, running=0) == waited_ms
        assert breaker.wait_ms(1_000 + waited_ms, running=0) == 0
    breaker.succeeded()
    assert breaker.wait_ms(2_000, running=9) == 0


@pytest.mark.parametrize(
    "status, headers, action, delay_ms",
    [
        (200, {}, Action.DONE, None),
        (204, {"kafka-action": "Retry"}, Action.DONE, None),
        (503, {}, Action.RETRY, None),
        (429, {"retry-after": "7"}, Action.RETRY, 7_000),
        (429, {"retry-after": "7", "kafka-retry-delay-ms": "20"}, Action.RETRY, 20),
        (500, {"kafka-retry-delay-ms": "99999999999"}, Action.RETRY, 86_400_000),
        (500, {"kafka-retry-delay-ms": "soon"}, Action.RETRY, None),
        (500, {"kafka-retry-delay-ms": "9" * 5_000}, Action.RETRY, 86_400_000),
        (429, {"retry-after": "9" * 5_000}, Action.RETRY, 86_400_000),
        (500, {"kafka-retry-delay-ms": "٣"}, Action.RETRY, None),
        (422, {}, Action.DEAD, None),
        (422, {"kafka-action": "Stash"}, Action.STASH, None),
        (500, {"kafka-action": "skip"}, Action.SKIP, None),
        (422, {"kafka-action": "Retry", "kafka-retry-delay-ms": "0"}, Action.RETRY, 0),
        (302, {"kafka-action": "dance"}, Action.DEAD, None),
    ],
)
def test_what_a_status_means(
    status: int, headers: dict[str, str], action: Action, delay_ms: int | None
) -> None:
    verdict = of_http(status, headers)
    assert (verdict.action, verdict.delay_ms) == (action, delay_ms)


@pytest.mark.parametrize(
    "code, metadata, action",
    [
        ("OK", {}, Action.DONE),
        ("RESOURCE_EXHAUSTED", {}, Action.RETRY),
        ("FAILED_PRECONDITION", {}, Action.DEAD),
        ("FAILED_PRECONDITION", {"kafka-action": "Retry"}, Action.RETRY),
        ("FAILED_PRECONDITION", {"kafka-action": "Stash"}, Action.STASH),
        ("FAILED_PRECONDITION", {"kafka-action": "Skip"}, Action.SKIP),
        ("INTERNAL", {}, Action.DEAD),
    ],
)
def test_what_a_grpc_code_means(code: str, metadata: dict[str, str], action: Action) -> None:
    assert of_grpc(code, metadata).action is action


def test_a_service_that_has_become_slow_for_good_gets_more_again() -> None:
    limit = Concurrency(most=20)
    for _ in range(100):
        limit.answered(5, running=limit.limit)
    for _ in range(2_000):
        limit.answered(100, running=limit.limit)
    assert limit.limit > 10


def test_records_that_fail_again_keep_no_circuit_open() -> None:
    breaker = Breaker(failures_max=3, first_ms=100, most_ms=300)
    for _ in range(10):
        breaker.doubted()
    assert breaker.wait_ms(0, running=9) == 0
    for _ in range(3):
        breaker.failed(0)
    breaker.doubted()
    assert breaker.state is Circuit.OPEN, "the answer of a push from before says nothing"
    assert breaker.wait_ms(100, running=0) == 0
    breaker.doubted()
    for _ in range(10):
        breaker.doubted()
        assert breaker.wait_ms(100, running=9) == 0
    breaker.failed(100)
    assert breaker.wait_ms(100, running=0) == 200, "one more failure of another record, and for longer"
