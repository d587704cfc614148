"""Logs that have failed and are opened again: only where that is safe, and again and again until it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kohort.broker.partitions import Partition
from kohort.broker.partitions.host import OpenedLog
from kohort.broker.partitions.test_support import World
from kohort.protocol.errors import ErrorCode
from kohort.storage import StorageError


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create("t")
    world.fill("t", batches=3)
    return world


def full(*_arguments: object) -> None:
    raise StorageError("the disk is full")


def test_a_log_without_its_end_serves_only_once_the_journal_has_nothing_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, opened_again, tells = world.partition("t"), world.files.open, [True]

    def without_end(partition: Partition, *, again: bool = False) -> OpenedLog:
        is_told = bool(tells) and tells.pop()  # The next opening finds a log as long as the one before.
        return opened_again(partition, again=again)._replace(lost_tail=is_told)

    monkeypatch.setattr(world.files, "open", without_end)
    assert world.journal.may_name(partition.log.log_id)
    with monkeypatch.context() as disk:
        disk.setattr(world.journal, "wipe", full)
        partition.failed(StorageError("the disk"))
        for _ in range(3):
            world.reopen_failed()
            world.flusher.flush()
            assert partition.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    world.reopen_failed()
    world.flusher.flush()
    assert partition.error_code is None
    assert not world.journal.may_name(partition.log.log_id)


@pytest.mark.parametrize("error", [ValueError("a bug"), OSError("unplugged"), AssertionError("impossible")])
def test_a_bug_in_opening_a_log_is_logged_and_the_log_is_opened_later(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    partition = world.partition("t")

    def faulty(*_arguments: object, **_more: object) -> OpenedLog:
        raise error

    with monkeypatch.context() as files, capture_logs() as logs:
        files.setattr(world.files, "open", faulty)
        partition.failed(StorageError("the disk"))
        world.reopen_failed()
        assert partition.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "work in a thread failed" in [each["event"] for each in logs]
    world.reopen_failed()
    assert partition.error_code is None
    assert partition.high_watermark == 3
