"""After wrong passwords a client waits longer and longer; other clients do not."""

import itertools

import pytest

from kohort.broker.runtime import lock_out
from kohort.broker.runtime.lock_out import FREE, FREE_OF_NETWORK, HALVED_MS, KEPT_MAX, LockOut

HERE, ELSEWHERE = "10.0.0.1", "10.0.0.2"
LONGEST_MS = 60_000


def wait_ms(lock: LockOut, host: str, user: str, now_ms: int) -> int:
    return lock.wait_ms(host, user, now_ms, longest_ms=LONGEST_MS)


def guesses(lock: LockOut, host: str, users: list[str], until_ms: int, *, from_ms: int = 0) -> int:
    """Guess every ten milliseconds, of one user after the other; return how many guesses were looked at."""
    judged = 0
    for user, now_ms in zip(itertools.cycle(users), range(from_ms, until_ms, 10)):
        if not wait_ms(lock, host, user, now_ms):
            lock.failed(host, user, now_ms)
            judged += 1
    return judged


def test_repeated_guesses_are_checked_at_most_once_a_minute_in_the_end() -> None:
    lock = LockOut()
    assert guesses(lock, HERE, ["alice"], 3_600_000) < FREE + 6 + 60


def test_guesses_for_many_users_from_one_network_are_limited_too() -> None:
    users = [f"user{each}" for each in range(1_000)]
    assert guesses(LockOut(), HERE, users, 600_000) < FREE_OF_NETWORK + 6 + 10
    spread = LockOut()
    judged = sum(
        guesses(spread, f"2001:db8::{each:x}", users, (each + 1) * 10_000, from_ms=each * 10_000)
        for each in range(60)
    )
    assert judged < FREE_OF_NETWORK + 6 + 10, "all addresses of a /64 are one"


def test_a_user_is_not_locked_out_from_another_address() -> None:
    lock = LockOut()
    guesses(lock, HERE, ["alice"], 60_000)
    assert wait_ms(lock, HERE, "alice", 60_000)
    assert not wait_ms(lock, ELSEWHERE, "alice", 60_000)


def test_a_user_that_logged_in_does_not_wait_for_others_of_its_network() -> None:
    lock = LockOut()
    lock.succeeded(HERE, "alice")
    guesses(lock, HERE, [f"user{each}" for each in range(1_000)], 60_000)
    assert wait_ms(lock, HERE, "bob", 60_000)
    assert not wait_ms(lock, HERE, "alice", 60_000)


def test_a_correct_password_or_time_ends_the_lock() -> None:
    lock = LockOut()
    for _ in range(FREE + 3):
        lock.failed(HERE, "alice", 0)
        lock.failed(HERE, "bob", 0)
    lock.succeeded(HERE, "alice")
    assert not wait_ms(lock, HERE, "alice", 1)
    assert wait_ms(lock, HERE, "bob", 1) == 8_000 - 1
    assert not wait_ms(lock, HERE, "bob", 8_000)
    lock.failed(HERE, "bob", 8_000)
    assert wait_ms(lock, HERE, "bob", 8_000) == 16_000
    lock.failed(HERE, "bob", 8_000 + 2 * HALVED_MS)
    assert not wait_ms(lock, HERE, "bob", 8_001 + 2 * HALVED_MS), "nine are two by then, and one"


def test_a_client_with_an_old_password_does_not_wait_longer_for_asking_often() -> None:
    lock = LockOut()
    for _ in range(FREE):
        lock.failed(HERE, "alice", 0)
    assert [wait_ms(lock, HERE, "alice", now_ms) for now_ms in (0, 500, 999, 1_000)] == [1_000, 500, 1, 0]


def test_the_lock_can_be_disabled() -> None:
    lock = LockOut()
    for _ in range(1_000):
        lock.failed(HERE, "alice", 0)
    assert lock.wait_ms(HERE, "alice", 1, longest_ms=0) == 0


def test_memory_is_bounded_for_any_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEPT_MAX == 10_000
    monkeypatch.setattr(lock_out, "KEPT_MAX", 100)
    lock = LockOut()
    for number in range(1_000):
        lock.failed(f"10.0.{number % 250}.{number // 250}", f"{number}\ud800" * 1_000, number)
        lock.succeeded(HERE, f"user{number}")
    assert len(lock) == 300


@pytest.mark.parametrize("clients", [1, 3])
def test_clients_with_an_old_password_do_not_lock_out_new_clients_of_their_network(clients: int) -> None:
    """They ask on for hours, each second; who comes for the first time is looked at within minutes."""
    lock, hours_s, waits = LockOut(), 5 * 3_600, 0
    for second in range(hours_s):
        for user in (f"old{each}" for each in range(clients)):
            if not wait_ms(lock, HERE, user, second * 1_000):
                lock.failed(HERE, user, second * 1_000)
        waits += second >= hours_s - 3_600 and wait_ms(lock, HERE, "newcomer", second * 1_000) > 0
    assert waits < 3_600 / 2


def test_some_users_are_not_tried_on_and_on_either() -> None:
    lock = LockOut()
    assert (
        guesses(lock, HERE, [f"user{each}" for each in range(100)], 1_200_000) < FREE_OF_NETWORK + 6 + 20 * 11
    )
