"""What no consumer is ever given is no lag: markers, aborted records, deleted ones; in a whole broker."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.test_shard import Client, commit, prepared, running
from kohort.broker.lag import Verdict, first_record
from kohort.broker.lag.test_watch import lag_of
from kohort.broker.partitions.markers import append_marker
from kohort.protocol.records import ControlType, build_batch
from kohort.storage import StorageError

HURRY = (("kohort.lag.interval.ms", "100"), ("offsets.topic.num.partitions", "4"))
INTERVALS_UNTIL_STOP = 12


class Log:
    """Partition 1 of `air`: written to by two transactional producers, and one that is none."""

    def __init__(self, broker: Broker, client: Client) -> None:
        self.broker = broker
        self.client = client
        self._sequences = {1: 0, 2: 0}

    async def write(self, producer_id: int | None = None) -> None:
        batch = [(self.broker.clock.wall_ms() - 60_000, None, b"x", ())]
        if producer_id is None:
            return await self._append(build_batch(batch))
        sequence = self._sequences[producer_id]
        self._sequences[producer_id] += 1
        return await self._append(
            build_batch(
                batch,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=True,
            )
        )

    async def _append(self, batch: bytes) -> None:
        partition = await self.broker.partitions.opened("air", 1)
        partition.append_own(batch)
        await self._flush()

    async def end(self, producer_id: int, kind: ControlType) -> None:
        partition = await self.broker.partitions.opened("air", 1)
        now_ms = self.broker.clock.wall_ms()
        append_marker(partition, kind, producer_id, 0, coordinator_epoch=0, now_ms=now_ms)
        await self._flush()

    async def _flush(self) -> None:
        partition = await self.broker.partitions.opened("air", 1)
        written = trio.Event()

        def done(error: StorageError | None) -> None:
            assert error is None
            written.set()

        self.broker.flusher.request(partition, done)
        await written.wait()

    async def delete_before(self, offset: int) -> None:
        partition = await self.broker.partitions.opened("air", 1)
        partition.log.delete_records_before(offset, 0)


@asynccontextmanager
async def log_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Log]:
    monkeypatch.setattr("kohort.broker.coordination.test_shard.SETTINGS", HURRY)
    async with running(folder) as broker:
        yield Log(broker, await prepared(broker))


async def never_stops(log: Log) -> None:
    """Return if the group has no lag, and is never said to have stopped."""
    for _ in range(INTERVALS_UNTIL_STOP):
        await trio.sleep(0.1)
        row = await lag_of(log.broker)
        assert (row.lag, row.lag_seconds, row.verdict) == (0, 0.0, Verdict.OK)


async def a_marker(log: Log) -> None:
    await log.write(1)
    assert await commit(log.client, 1) == 0
    await log.end(1, ControlType.COMMIT)


async def an_aborted_tail(log: Log) -> None:
    await log.write()
    assert await commit(log.client, 1) == 0
    await log.write(1)
    await log.write(1)
    await log.end(1, ControlType.ABORT)


async def two_that_overlap(log: Log) -> None:
    await log.write(1)
    assert await commit(log.client, 1) == 0
    await log.write(2)
    await log.end(1, ControlType.COMMIT)
    await log.write(2)
    await log.end(2, ControlType.ABORT)


async def deleted_records(log: Log) -> None:
    for _ in range(3):
        await log.write()
    assert await commit(log.client, 1) == 0
    await log.delete_before(3)


async def deleted_records_and_a_marker(log: Log) -> None:
    await log.write(1)
    await log.write(1)
    assert await commit(log.client, 0) == 0
    await log.end(1, ControlType.COMMIT)
    await log.delete_before(2)


async def an_open_transaction(log: Log) -> None:
    await log.write()
    assert await commit(log.client, 1) == 0
    await log.write(1)


@pytest.mark.parametrize(
    "leave",
    [
        a_marker,
        an_aborted_tail,
        two_that_overlap,
        deleted_records,
        deleted_records_and_a_marker,
        an_open_transaction,
    ],
)
async def test_a_group_that_read_everything_readable_has_no_lag_and_has_not_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave: Callable[[Log], object]
) -> None:
    async with log_of(tmp_path, monkeypatch) as log:
        await leave(log)  # type: ignore[misc]  # A coroutine.
        await never_stops(log)


async def test_a_record_after_a_marker_counts_in_the_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with log_of(tmp_path, monkeypatch) as log:
        await a_marker(log)
        await log.write()
        row = await lag_of(log.broker)
        assert (row.end_offset, row.lag) == (3, 1)
        assert row.lag_seconds == pytest.approx(60, abs=10)
        with trio.fail_after(10):
            while (await lag_of(log.broker)).verdict is not Verdict.STOP:
                await trio.sleep(0.05)


async def test_a_transaction_counts_once_it_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with log_of(tmp_path, monkeypatch) as log:
        await an_open_transaction(log)
        assert (await lag_of(log.broker)).lag == 0
        await log.end(1, ControlType.COMMIT)
        assert (await lag_of(log.broker)).lag == 2


async def test_a_group_that_reads_uncommitted_records_is_measured_by_the_log_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with log_of(tmp_path, monkeypatch) as log:
        await an_open_transaction(log)
        await log.write(1)
        assert await commit(log.client, 2) == 0
        assert (await lag_of(log.broker)).lag == 1


async def test_deleted_records_are_not_lag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with log_of(tmp_path, monkeypatch) as log:
        await log.write()
        await log.write()
        assert await commit(log.client, 0) == 0
        row = await lag_of(log.broker)
        assert row.lag == 2
        assert row.lag_seconds is not None
        await log.delete_before(1)
        row = await lag_of(log.broker)
        assert row.lag == 1
        assert row.lag_seconds == pytest.approx(60, abs=10)
        await log.delete_before(2)
        assert (await lag_of(log.broker)).lag == 0


async def test_an_active_group_before_markers_is_not_reported_as_too_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with log_of(tmp_path, monkeypatch) as log:
        for number in range(INTERVALS_UNTIL_STOP):
            await log.write(1)
            await log.end(1, ControlType.COMMIT)
            assert await commit(log.client, 2 * number + 1) == 0  # Behind the record, before the marker.
            await log.broker.lag.look()
            assert (await lag_of(log.broker)).verdict is Verdict.OK


async def test_a_long_unreadable_tail_is_skipped_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_record, "BATCHES_MAX", 2)
    async with log_of(tmp_path, monkeypatch) as log:
        await log.write()
        assert await commit(log.client, 1) == 0
        for _ in range(4):
            await log.write(1)
        await log.end(1, ControlType.ABORT)
        assert [(await lag_of(log.broker)).lag for _ in range(3)] == [3, 1, 0]
