"""When a disk counts as full, and that it is said once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

from structlog.testing import capture_logs

from kohort.broker.runtime.disk_space import MARGIN, DiskSpace


class Disk(NamedTuple):
    total: int
    free: int


class World:
    """Workers without threads, and a disk that is set by hand."""

    def __init__(self, least: int = 1_000) -> None:
        self.free: int | OSError = 5_000
        self.disk = DiskSpace(Path("data"), lambda: least, cast(Any, self), self._usage)

    async def in_thread(self, function: Callable[..., object], *arguments: object) -> object:
        return function(*arguments)

    def _usage(self, path: Path) -> Disk:
        if isinstance(self.free, OSError):
            raise self.free
        return Disk(10_000, self.free)

    async def looked(self, free: int | OSError) -> str | None:
        self.free = free
        await self.disk.look()
        return self.disk.reason()


async def test_a_disk_with_space_logs_nothing() -> None:
    world = World()
    with capture_logs() as lines:
        assert await world.looked(1_000) is None
    assert (world.disk.free_bytes, world.disk.total_bytes, lines) == (1_000, 10_000, [])


async def test_a_full_disk_is_logged_once_and_so_is_its_recovery() -> None:
    world = World()
    with capture_logs() as lines:
        reason = await world.looked(999)
        assert reason is not None
        assert "999 bytes are free, kohort.disk.free.bytes.min is 1000" in reason
        for free in (500, 1_000, 1_050, 999, 1_000):  # About the limit it does not flap.
            assert await world.looked(free) is not None
        assert await world.looked(int(1_000 * MARGIN)) is None
        assert await world.looked(1_000) is None
    assert [line["log_level"] for line in lines] == ["error", "info"]


async def test_an_unreadable_data_folder_is_a_reason() -> None:
    world = World()
    reason = await world.looked(FileNotFoundError(2, "No such file or directory"))
    assert reason == "the data folder cannot be looked at: No such file or directory"
    assert await world.looked(5_000) is None


async def test_without_a_minimum_no_disk_is_full() -> None:
    assert await World(least=0).looked(0) is None
