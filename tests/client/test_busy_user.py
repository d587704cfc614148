"""Heartbeats go on while the user's thread computes in pure Python and holds the interpreter's lock.

`make test` computes for 2.5 s under a session timeout of 1 s; KOHORT_TEST_BUSY=1 for 60 s under 10 s.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from kohort.client import Admin, Consumer
from tests.client.steps import Diary, produce, read

WHOLE = "KOHORT_TEST_BUSY" in os.environ
SESSION_TIMEOUT_MS, BUSY_S = (10_000, 60.0) if WHOLE else (1_000, 2.5)


@pytest.fixture(params=[0.005, 0.05], ids=lambda interval_s: f"switch interval {interval_s} s")
def switch_interval_s(request: pytest.FixtureRequest) -> Iterator[float]:
    """How long Python lets a thread compute before another gets its turn: the default, and ten times that."""
    before_s = sys.getswitchinterval()
    interval_s: float = request.param
    sys.setswitchinterval(interval_s)
    yield interval_s
    sys.setswitchinterval(before_s)


def compute(seconds: float) -> int:
    """Keep the interpreter busy without a call that would release its lock; return the rounds."""
    rounds, ends_s = 0, time.monotonic() + seconds
    while time.monotonic() < ends_s:
        rounds += 1
        for number in range(2_000):
            rounds ^= number
    return rounds


@pytest.mark.requirement("R27")
def test_a_member_that_processes_longer_than_its_session_timeout_stays_in_the_group(
    bootstrap: str,
    topic: Callable[[int], str],
    group: str,
    switch_interval_s: float,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = topic(1)
    produce(bootstrap, name, 2)
    told = Diary()
    with (
        Consumer(
            name,
            listener=told,
            group_id=group,
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=SESSION_TIMEOUT_MS * 3 // 10,
        ) as consumer,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        assert len(read(consumer, 2)) == 2
        before = consumer.group_metadata()
        compute(BUSY_S)
        assert consumer.group_metadata() == before, "the same member in the same generation"
        consumer.commit()
        [member] = admin.describe_groups(group)[group].members
        assert member.member_id == before.member_id
        produce(bootstrap, name, 1)
        assert len(read(consumer, 1)) == 1
    assert told.lines == [("assigned", (0,)), ("revoked", (0,))]
    with capsys.disabled():
        print(  # noqa: T201  # A figure to be seen.
            f"\n  {BUSY_S:.1f} s of pure Python under session_timeout_ms={SESSION_TIMEOUT_MS},"
            f" switch interval {switch_interval_s * 1000:.0f} ms: still in generation {before.generation_id}"
        )
