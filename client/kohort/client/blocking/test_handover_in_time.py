"""A poll keeps to its time while the commit before a revocation takes longer. No broker is there."""

import threading
import time

import anyio
import pytest

from kohort.client import Consumer, TopicPartition
from kohort.client.membership import Revoke
from kohort.client.retry import Deadline
from tests.interop.waiting import wait_until

GOES = Revoke({"t": (0,)})


def test_the_commit_continues_and_the_next_poll_repeats_the_revocation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coordinator_answers = threading.Event()
    commits: list[float] = []

    async def auto_now(deadline: Deadline, unfinished: object = None) -> None:
        commits.append(deadline.timeout_ms)
        while not coordinator_answers.is_set():
            await anyio.sleep(0.01)

    with Consumer(bootstrap_servers="127.0.0.1:1", group_id="g") as consumer:
        session = consumer._session
        monkeypatch.setattr(session.commits, "auto_now", auto_now)
        began_s = time.monotonic()
        for _ in range(2):
            assert consumer._loop.call(consumer._handovers.begin, GOES, Deadline(100)) is None
        assert time.monotonic() - began_s >= 0.2  # Both end before the commit, which waits for this test.
        coordinator_answers.set()
        wait_until(
            lambda: consumer._loop.call(consumer._handovers.begin, GOES, Deadline(100)), "it is committed"
        )
        assert consumer._loop.call(consumer._handovers.begin, GOES, None) == (TopicPartition("t", 0),)
        assert commits == [60_000], "once"
