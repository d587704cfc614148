"""Settings by which an administrator, or who poses as one, would lock out or lose somebody."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.offset_commit import OffsetCommitResponse
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from kohort.protocol.records import build_batch
from tests.attacks.altering import BROKER_RESOURCE, TOPIC_RESOURCE, alter
from tests.attacks.answers import codes_in
from tests.attacks.commits import commit_of
from tests.attacks.innocent import TOPIC
from tests.attacks.producing import create, now_ms, produce
from tests.attacks.trial import SETTINGS, StartTrial, answers
from tests.attacks.wire import Line
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

OFFSETS_TOPIC = "__consumer_offsets"
NODE = "1"
QUICK_RETENTION = ("log.retention.check.interval.ms=100", "log.initial.task.delay.ms=100")
STRANGE_PRODUCERS = {  # Id, epoch and sequence, and whether they are refused.
    (7, -3, 0): True,
    (7, 0, -9): True,
    (-5, 3, 4): False,
    (-(2**63), -1, -1): False,
}
LOADING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("setting", ["max_connections", "max_connections_per_ip"])
def test_no_setting_locks_everybody_out(trial: StartTrial, setting: str) -> None:
    """A limit of no connections at all would keep out whoever could take it back."""
    with trial() as attacked:
        line = attacked.connect()
        for resource in (NODE, ""):
            code = alter(line, BROKER_RESOURCE, resource, **{setting: "0"})
            assert code != ErrorCode.NONE or answers(attacked.broker.address)


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup_policy": "delete", "retention_ms": "1", "segment_ms": "1"},
        {"cleanup_policy": "compact,delete", "retention_ms": "1", "segment_ms": "1"},
        {"cleanup_policy": "compact,delete", "retention_bytes": "1", "segment_bytes": "1048576"},
        {"cleanup_policy": "delete"},
        {"retention_ms": "1", "segment_ms": "1", "max_compaction_lag_ms": "1"},
        {"max_message_bytes": "1"},
        {"compression_type": "gzip", "message_timestamp_type": "LogAppendTime"},
    ],
    ids=" ".join,
)
def test_offsets_outlive_any_setting_of_their_topic(trial: StartTrial, settings: dict[str, str]) -> None:
    """Each may be refused; none may lose what was committed, and none may stop commits."""
    with trial(*QUICK_RETENTION) as attacked:
        line = attacked.connect()
        for number in range(20):
            assert commit(line, f"group-{number}", number) == {ErrorCode.NONE}
        alter(line, TOPIC_RESOURCE, OFFSETS_TOPIC, **settings)
        for number in range(20, 200):
            assert commit(line, f"group-{number % 20}", number) == {ErrorCode.NONE}
            time.sleep(0.005)
    broker = attacked.broker
    broker.restart(signal.SIGKILL)
    line = Line(broker.address)
    assert [committed(line, f"group-{number}") for number in range(20)] == list(range(180, 200))
    line.close()


def commit(line: Line, group_id: str, offset: int) -> set[int]:
    """Commit by nobody's member; return the error codes."""
    return codes_in(line.ask(commit_of(group_id, offset), OffsetCommitResponse, 8))


def committed(line: Line, group_id: str) -> int:
    """Return what is committed, once the coordinator has loaded."""
    topics = (OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,)),)
    found: list[OffsetFetchResponse] = []

    def is_there() -> bool:
        found[:] = [line.ask(OffsetFetchRequest(group_id=group_id, topics=topics), OffsetFetchResponse, 7)]
        return not codes_in(found[0]) & LOADING

    wait_until(is_there, "the coordinator has loaded")
    return found[0].topics[0].partitions[0].committed_offset


def test_segments_of_a_millisecond(trial: StartTrial) -> None:
    """Each record begins a segment of its own."""
    with trial() as attacked:
        line = attacked.connect()
        create(line, "short", configs={"segment.ms": "1"})
        opened = attacked.broker.open_files()
        for _ in range(300):
            produce(line, "short", build_batch([(now_ms(), None, b"value", ())]))
            time.sleep(0.002)
        assert attacked.broker.open_files() - opened < 300


def test_negative_producer_ids_affect_nobody(trial: StartTrial) -> None:
    """An id below zero is none, as Kafka has it."""
    with trial() as attacked:
        line = attacked.connect()
        create(line, "strange")
        for strange, is_refused in STRANGE_PRODUCERS.items():
            code = produce(line, "strange", value_of(*strange))
            assert (code != ErrorCode.NONE) == is_refused, strange
        assert produce(line, "strange", value_of(7, 0, 0)) == ErrorCode.NONE
    attacked.broker.restart(signal.SIGKILL)
    assert answers(attacked.broker.address)


def value_of(producer_id: int, epoch: int, sequence: int) -> bytes:
    """Return a batch of one record by that producer."""
    return build_batch(
        [(now_ms(), None, b"value", ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


@pytest.fixture
def broker_alone(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with nobody beside."""
    broker = BrokerProcess(tmp_path, *SETTINGS)
    broker.start()
    yield broker
    broker.kill()


def test_nothing_is_acknowledged_after_the_data_folder_was_deleted(broker_alone: BrokerProcess) -> None:
    line = Line(broker_alone.address)
    create(line, TOPIC)
    wait_until(lambda: commit(line, "group", 1) == {ErrorCode.NONE}, "the coordinator has loaded")
    broker_alone.data.rename(broker_alone.data.with_name("gone"))
    batch = build_batch([(now_ms(), None, b"value", ())])

    def refuses() -> bool:
        return produce(line, TOPIC, batch) != ErrorCode.NONE and commit(line, "group", 2) != {ErrorCode.NONE}

    wait_until(refuses, "produce and commit are refused", 10.0)
    line.close()
