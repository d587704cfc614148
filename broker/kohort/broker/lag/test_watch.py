"""The lag of groups in a whole broker with real logs."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.test_shard import GROUP, commit, prepared, running
from kohort.broker.http.groups import describe_group
from kohort.broker.http.metrics import MetricsPage
from kohort.broker.lag import PartitionLag, Verdict, watch
from kohort.broker.lag.first_record import first_records
from kohort.broker.lag.watch import LagWatch
from kohort.protocol.offsets_topic import OffsetCommitValue
from kohort.protocol.records import build_batch
from kohort.storage import StorageError


async def produce(broker: Broker, *timestamps_ms: int) -> None:
    """Write one batch with a record at each of these times, and return when it is there."""
    partition = await broker.partitions.opened("air", 1)
    partition.append_own(build_batch([(each, None, b"x", ()) for each in timestamps_ms]))
    written = trio.Event()

    def done(error: StorageError | None) -> None:
        assert error is None
        written.set()

    broker.flusher.request(partition, done)
    await written.wait()


async def lag_of(broker: Broker) -> PartitionLag:
    (row,) = await broker.lag.of(broker.group_shards.groups())
    return row


async def test_the_age_of_a_group_is_known_after_a_concurrent_measurement_missed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(broker, broker.clock.now_ms() - 60_000)
        assert await commit(client, 0) == 0
        refresh = LagWatch._refresh

        async def refresh_while_a_look_ends(self: LagWatch, *given: Any, is_timed: bool) -> bool:
            found = await refresh(self, *given, is_timed=is_timed)
            self._windows = {}  # What a look leaves that began before the group had committed.
            return found

        monkeypatch.setattr(LagWatch, "_refresh", refresh_while_a_look_ends)
        assert (await lag_of(broker)).lag_seconds == pytest.approx(60, abs=10)


async def test_the_lag_in_seconds_is_the_age_of_the_first_record_that_is_not_committed(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        now_ms = broker.clock.now_ms()
        await produce(broker, now_ms - 60_000)
        await produce(broker, now_ms - 30_000, now_ms - 20_000, now_ms - 10_000)
        assert await commit(client, 2) == 0
        row = await lag_of(broker)
        assert (row.group_id, row.topic, row.partition) == (GROUP, "air", 1)
        assert (row.offset, row.end_offset, row.lag) == (2, 4, 2)
        assert row.lag_seconds == pytest.approx(20, abs=5)
        assert await commit(client, 4) == 0
        row = await lag_of(broker)
        assert (row.lag, row.lag_seconds, row.verdict) == (0, 0.0, Verdict.OK)


async def test_an_offset_before_the_logs_start_is_as_old_as_the_first_record(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await prepared(broker)
        await produce(broker, 1_000)
        await produce(broker, 2_000)
        partition = await broker.partitions.opened("air", 1)
        partition.log.delete_records_before(1, 0)
        work = [(partition.log, 0, 2), (partition.log, 2, 2)]
        assert first_records(work) == [(1, True, 2_000), (2, False, None)]


@pytest.mark.parametrize("offset", [-(2**63), -2, -1])
async def test_an_offset_that_no_record_has_breaks_neither_lag_nor_pages(tmp_path: Path, offset: int) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(broker, broker.clock.now_ms() - 5_000)
        assert await commit(client, 0) == 0
        group = broker.group_shards.group(GROUP)
        assert group is not None
        value = group.offsets["air"][1]
        group.offsets["air"][1] = OffsetCommitValue(
            offset=offset,
            metadata="",
            commit_timestamp=value.commit_timestamp + 1,
            topic_id=value.topic_id,
        )
        await broker.lag.look()
        row = await lag_of(broker)
        assert (row.offset, row.lag) == (offset, 1)
        assert row.lag_seconds == pytest.approx(5, abs=4)
        view = broker.view()
        described = msgspec.json.decode(
            msgspec.json.encode(await describe_group(view, group, broker.clock.now_ms()))
        )
        assert (described["lag"], described["offsets"][0]["offset"]) == (1, offset)
        page, _ = await MetricsPage(view).page("")
        assert (
            f'kafka_consumergroup_lag{{consumergroup="{GROUP}",partition="1",topic="air"}} 1.0'
            in page.decode()
        )


async def test_a_group_that_stops_committing_is_reported_as_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry = (("kohort.lag.interval.ms", "100"), ("offsets.topic.num.partitions", "4"))
    monkeypatch.setattr("kohort.broker.coordination.test_shard.SETTINGS", hurry)
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(broker, broker.clock.now_ms())
        assert await commit(client, 0) == 0
        assert (await lag_of(broker)).verdict is Verdict.OK
        with trio.fail_after(10):
            while (await lag_of(broker)).verdict is not Verdict.STOP:
                await trio.sleep(0.05)


async def test_a_log_that_is_unopened_since_the_start_is_opened_for_its_lag(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(broker, 1, 2, 3)
        assert await commit(client, 1) == 0
    async with running(tmp_path) as broker:
        with trio.fail_after(5):
            while broker.group_shards.inactive:
                await trio.sleep(0.01)
        partition = broker.partitions.peek("air", 1)
        assert partition is not None
        assert not partition.opened
        assert (await lag_of(broker)).lag == 2


async def test_an_offline_log_has_no_lag(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        await produce(broker, 1, 2, 3)
        assert await commit(client, 1) == 0
        partition = await broker.partitions.opened("air", 1)
        partition.offline = StorageError("gone")
        row = await lag_of(broker)
        assert (row.lag, row.lag_seconds, row.verdict) == (None, None, None)


async def test_windows_of_deleted_partitions_are_removed_and_their_number_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 0) == 0
        await broker.lag.look()
        assert (await lag_of(broker)).verdict is Verdict.OK
        monkeypatch.setattr(watch, "PARTITIONS_WATCHED_MAX", 0)
        await broker.lag.look()
        row = await lag_of(broker)
        assert (row.lag, row.verdict) == (0, None)


SLICES = 20


async def test_a_measurement_of_many_partitions_yields_to_the_loop(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await prepared(broker)
        assert await commit(client, 0) == 0
        (group,) = broker.group_shards.groups()
        offsets = group.offsets["air"]
        offsets.update(dict.fromkeys(range(10, 10 + SLICES * watch.SLICE), offsets[1]))
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            await broker.lag.look()
            assert (
                turns >= SLICES - 2
            )  # The order of tasks is trio's: the first slice may come before the first turn.
            turns = 0
            assert len(await broker.lag.of([group])) == SLICES * watch.SLICE + 1
            assert turns >= SLICES - 2
            nursery.cancel_scope.cancel()
