"""What is said of trouble, and how often."""

import logging
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import anyio
import pytest

from kohort.client import Consumer, OffsetAndMetadata, Producer, TopicPartition, commits
from kohort.client.cluster import Cluster
from kohort.client.commits import Commits
from kohort.client.config import consumer_config
from kohort.client.consumer_metrics import ConsumerMetrics
from kohort.client.errors import BrokerError, KohortError
from kohort.client.group import GroupTask
from kohort.client.member import new_membership
from kohort.client.metrics import Metrics
from kohort.client.positions import Positions
from kohort.client.values import Node
from kohort.client.warnings import GAP_MOST_MS, SUBJECTS_MAX, Warnings
from kohort.protocol.errors import ErrorCode

NOWHERE = "127.0.0.1:1"


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    caplog.clear()
    return found


def test_the_first_warning_is_logged_at_once_and_repeated_at_growing_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    warnings = Warnings(clock)
    times: list[int] = []
    for second in range(3_600):
        clock.now_ms = second * 1_000
        warnings.say("b1", "no connection")
        if said(caplog):
            times.append(second)
    assert times[:6] == [0, 10, 30, 70, 150, 310]
    assert {later - sooner for sooner, later in pairwise(times[5:])} == {GAP_MOST_MS // 1_000}


def test_the_duration_of_the_trouble_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    warnings = Warnings(clock)
    for at_ms in range(0, 10_001, 1_000):
        clock.now_ms = at_ms
        warnings.say("b1", "no connection")
    assert said(caplog) == ["no connection", "no connection (for 10 s now)"]


def test_subjects_do_not_quiet_each_other(caplog: pytest.LogCaptureFixture) -> None:
    warnings = Warnings(Clock())
    for each in ("b1", "b2", "b1"):
        warnings.say(each, each)
    assert said(caplog) == ["b1", "b2"]


def test_after_a_quiet_time_the_trouble_counts_as_new(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    warnings = Warnings(clock)
    for at_ms in (0, 1_000, 10_000, 100_000, 101_000):
        clock.now_ms = at_ms
        warnings.say("b1", at_ms)
    assert said(caplog) == ["0", "10000 (for 10 s now)", "100000"]


def test_a_short_trouble_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    warnings = Warnings(clock)
    for at_ms in (0, 400):
        clock.now_ms = at_ms
        warnings.say("topic", "is not there yet", after_ms=500)
    warnings.is_over("topic")
    for at_ms in (1_000, 1_400, 1_500):
        clock.now_ms = at_ms
        warnings.say("topic", at_ms, after_ms=500)
    assert said(caplog) == ["1500"]


def test_memory_is_bounded_for_any_subjects() -> None:
    warnings = Warnings(Clock())
    for each in range(3 * SUBJECTS_MAX):
        warnings.say(each, "x")
    assert len(warnings._troubles) <= SUBJECTS_MAX


def test_a_consumer_warns_within_a_second_that_no_broker_answers(caplog: pytest.LogCaptureFixture) -> None:
    with Consumer("t", bootstrap_servers=NOWHERE, group_id="g", enable_auto_commit=False) as consumer:
        assert consumer.poll(timeout_ms=900) == []
    messages = said(caplog)
    assert messages[0] == f"no connection to {NOWHERE}: Connection refused"
    assert len([each for each in messages if each.startswith("no connection")]) == 1, "once"


def test_a_producer_warns_while_send_waits(caplog: pytest.LogCaptureFixture) -> None:
    with Producer(bootstrap_servers=NOWHERE, max_block_ms=700) as producer, pytest.raises(KohortError):
        producer.send("t", b"")
    assert f"no connection to {NOWHERE}: Connection refused" in said(caplog)


class NoCoordinator(Cluster):
    """A cluster whose brokers answer, but of which none coordinates anything."""

    async def coordinator(self, key: str, key_type: int = 0) -> Node:
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def run_for(seconds: float, *tasks: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as group:
                for each in tasks:
                    group.start_soon(each)

    anyio.run(main)


def test_a_missing_coordinator_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    config = consumer_config({"group_id": "g"})
    cluster = NoCoordinator(config)
    membership = new_membership(config, "g")
    membership.subscribe(["t"])
    sensors = ConsumerMetrics(Metrics("test"), cluster, Positions(), lambda _: None, lambda: 0)
    task = GroupTask(cluster, membership, lambda: None, sensors, lambda: None)
    run_for(1.5, task.run)
    (message,) = said(caplog)
    assert message.startswith("the coordinator of group 'g' can't serve it: COORDINATOR_NOT_AVAILABLE")


def test_failing_automatic_commits_are_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: object, **options: object) -> None:
        raise BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    monkeypatch.setattr(commits, "commit_offsets", refuse)
    config = consumer_config({"group_id": "g"})
    commit = Commits(
        Cluster(config),
        config,
        Positions(),
        bound_to=lambda: None,
        departure_reason=lambda: "",
        news=lambda: None,
    )
    for _ in range(2):
        anyio.run(commit._auto, {TopicPartition("t", 0): OffsetAndMetadata(5)}, 0)
    (message,) = said(caplog)
    assert message.startswith("an automatic commit failed")
    assert "GROUP_AUTHORIZATION_FAILED" in message


def test_a_logged_warning_holds_no_exception(caplog: pytest.LogCaptureFixture) -> None:
    """An error has its frames, and these the sockets that they were about to connect."""
    Warnings(Clock()).say("broker", BrokerError(ErrorCode.NOT_COORDINATOR))
    (record,) = caplog.records
    assert isinstance(record.args, tuple)
    assert {type(each) for each in record.args} == {str}
    assert "NOT_COORDINATOR" in record.getMessage()
