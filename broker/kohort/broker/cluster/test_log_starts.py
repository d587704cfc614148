"""Starts of followed logs: told once they are on the disk, many by one save, and no fetch waits for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
import trio

from kohort.broker.cluster.fetcher import Fetcher
from kohort.broker.cluster.log_starts import LogStarts
from kohort.broker.partitions import Partition
from kohort.broker.replication import FetchFrom
from kohort.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kohort.storage import StorageError

TOPIC_ID = UUID(int=7)


class Disk:
    """Takes as long as the test says, and fails as often."""

    def __init__(self) -> None:
        self.saves = 0
        self.failures = 0
        self.errors: list[Exception] = []
        self.goes_on = trio.Event()
        self.starts = LogStarts(self.save)

    async def save(self) -> None:
        self.saves += 1
        await self.goes_on.wait()
        if self.failures:
            self.failures -= 1
            raise StorageError("the disk is full")
        if self.errors:
            raise self.errors.pop()


@asynccontextmanager
async def kept(disk: Disk) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(disk.starts.keep)
        yield
        nursery.cancel_scope.cancel()


class Followed:
    """What of a followed partition matters here."""

    def __init__(self) -> None:
        self.topic, self.topic_id, self.index = "t", TOPIC_ID, 0
        self.log = self.serving_log = SimpleNamespace(log_start_offset=0, log_end_offset=100, gaps=())
        self.config = SimpleNamespace(follower_replication_throttled_replicas="")
        self.following = self
        self.state = SimpleNamespace(isr=(1, 2), elr=())

    def next_fetch(self) -> FetchFrom:
        return FetchFrom(100, 1, 1, self.log.log_start_offset)

    def answered(self, high_watermark: int, log_start_offset: int) -> None:
        """Nothing of it matters here."""

    def synced(self) -> None:
        """Nothing of it matters here."""

    def moved(self) -> None:
        """Nothing of it matters here."""


async def test_many_log_starts_share_a_save_and_a_later_one_gets_another(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk, partitions, saved = Disk(), [cast(Partition, f"p{index}") for index in range(50)], list[Partition]()
    async with kept(disk):
        for each in partitions:
            disk.starts.moved(each, 3, lambda each=each: saved.append(each))  # type: ignore[misc]
        await trio.testing.wait_all_tasks_blocked()
        disk.starts.moved(partitions[0], 9, lambda: saved.append(partitions[0]))
        assert [disk.starts.reported_start(each) for each in partitions] == [3] * 50
        disk.goes_on.set()
        await disk.starts.until_saved(partitions, 60)
        assert disk.saves == 2
        assert sorted(map(str, saved)) == sorted(map(str, partitions))
        assert not any(disk.starts.reported_start(each) for each in partitions)


async def test_a_log_start_that_could_not_be_saved_is_saved_later_before_it_is_announced(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk, partition = Disk(), cast(Partition, "p")
    disk.failures = 2
    disk.goes_on.set()
    async with kept(disk):
        disk.starts.moved(partition, 3, lambda: None)
        await disk.starts.until_saved([partition], 1.5)
        assert disk.starts.reported_start(partition) == 3
        await disk.starts.until_saved([partition], 60)
        assert (disk.starts.reported_start(partition), disk.saves) == (None, 3)


@pytest.mark.parametrize("error", [OSError("unplugged"), AssertionError("a bug"), trio.TooSlowError()])
async def test_log_starts_are_saved_after_a_restart_for_any_end_of_the_save(
    autojump_clock: trio.testing.MockClock, error: Exception
) -> None:
    disk, partition, saved = Disk(), cast(Partition, "p"), list[str]()
    disk.errors = [error]
    disk.starts.moved(partition, 3, lambda: saved.append("p"))
    disk.goes_on.set()
    with pytest.raises(type(error)):
        await disk.starts.keep()
    assert disk.starts.reported_start(partition) == 3
    async with kept(disk):  # As the supervisor starts it again.
        await disk.starts.until_saved([partition], 60)
        assert (disk.starts.reported_start(partition), disk.saves, saved) == (None, 2, ["p"])


async def test_log_starts_are_saved_after_a_restart_when_a_save_was_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk, partition = Disk(), cast(Partition, "p")
    async with kept(disk):
        disk.starts.moved(partition, 3, lambda: None)
        await trio.testing.wait_all_tasks_blocked()
    disk.goes_on.set()
    async with kept(disk):
        await disk.starts.until_saved([partition], 60)
        assert (disk.starts.reported_start(partition), disk.saves) == (None, 2)


class Appending:
    """Takes records and starts at once."""

    async def append(self, partition: Any, following: object, records: object) -> bool:
        return True

    async def flush(self, partitions: object) -> None:
        """Nothing is left to do."""

    async def follow_start(self, partition: Any, following: object, offset: int) -> None:
        partition.log.log_start_offset = offset


class FailingAppending(Appending):
    """Moves the start, and fails then, as a segment does that can't be removed."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def follow_start(self, partition: Any, following: object, offset: int) -> None:
        partition.log.log_start_offset = offset
        raise self._error


def fetcher_of(partition: Any, appending: Appending, disk: Disk) -> Fetcher:
    """Return the fetcher that asks for this partition next."""
    replicas = SimpleNamespace(note_answer=lambda leader: None, followed=lambda leader: {partition: None})
    config = SimpleNamespace(
        replica_fetch_wait_max_ms=500,
        replica_fetch_response_max_bytes=1,
        replica_fetch_max_bytes=1,
    )
    fetcher = Fetcher(
        2,
        cast(Any, replicas),
        cast(Any, appending),
        cast(Any, SimpleNamespace(config=config)),
        lambda: (1, 1),
        starts=disk.starts,
    )
    fetcher._due[partition] = None
    fetcher._look_at_due()
    return fetcher


def answer_of(records: bytes | None) -> FetchResponse:
    """Return what a leader says whose log begins at 40."""
    data = PartitionData(
        partition_index=0, error_code=0, high_watermark=100, log_start_offset=40, records=records
    )
    return FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=1,
        responses=(FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(data,)),),
    )


@pytest.mark.parametrize("error", [StorageError("a file stays"), AssertionError("a bug")])
async def test_a_log_start_that_moved_before_an_error_is_announced_only_when_saved(error: Exception) -> None:
    disk, partition = Disk(), cast(Any, Followed())
    fetcher = fetcher_of(partition, FailingAppending(error), disk)
    with suppress(AssertionError):
        await fetcher._take(cast(Any, None), answer_of(None))
    assert partition.log.log_start_offset == 40
    assert disk.starts.reported_start(partition) == 0


@pytest.mark.parametrize("records", [b"some", None])
async def test_an_answer_with_records_does_not_wait_for_the_save(
    autojump_clock: trio.testing.MockClock, records: bytes | None
) -> None:
    disk, partition = Disk(), cast(Any, Followed())
    fetcher, answer = fetcher_of(partition, Appending(), disk), answer_of(records)
    async with kept(disk):
        before = trio.current_time()
        await fetcher._take(cast(Any, None), answer)
        assert (trio.current_time() > before) == (records is None), "whose leader waits for the next fetch"
        fetcher._look_at_due()
        assert partition.log.log_start_offset == 40
        assert fetcher._asked[TOPIC_ID, 0].at.log_start_offset == 0
        disk.goes_on.set()
        await disk.starts.until_saved([partition], 60)
        fetcher._look_at_due()
        assert fetcher._asked[TOPIC_ID, 0].at.log_start_offset == 40
