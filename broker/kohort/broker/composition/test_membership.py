"""A member of a cluster checks its folder before it registers: what a start that ends early leaves."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kohort.broker.composition.membership import Membership
from kohort.protocol.records import build_batch, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem

TOPIC_ID = UUID(int=7)


class Start:
    """One start of a member on a folder, as far as its registration."""

    def __init__(self, folder: Path, *, ends_before_it_registers: bool = False) -> None:
        self.data = DataDirectory.open(folder, OsFileSystem())
        self.is_short: bool | None = None
        self._ends = ends_before_it_registers

    async def register(self) -> None:
        membership = Membership.__new__(Membership)
        membership.data, membership.metadata = (
            self.data,
            cast("Any", SimpleNamespace(register=self._registered)),
        )
        membership.member = cast(
            "Any",
            SimpleNamespace(
                begin_life=self._begin_life,
                registration=lambda broker: broker,
                keep_metadata=None,
                keep_lease=None,
                watch_lease=None,
            ),
        )
        table = SimpleNamespace(opening=self)
        supervisor = SimpleNamespace(start=lambda name, run: None)
        await membership.register(cast("Any", None), cast("Any", table), cast("Any", supervisor))

    async def open_all(self) -> None:
        is_missing = self.data.records.is_missing("t", 0)
        log = self.data.open_log("t", TOPIC_ID, 0, LogConfig())
        self.is_short = is_missing or log.log_end_offset < self.data.records.known_end("t", 0)
        self.data.checkpoint()

    def _begin_life(self, *, is_short: bool) -> None:
        if self._ends:
            raise KeyboardInterrupt

    async def _registered(self, _broker: object) -> None:
        self.data.checkpoint()


async def test_a_start_that_ends_before_it_registers_leaves_the_loss_to_the_next(tmp_path: Path) -> None:
    data = DataDirectory.open(tmp_path, OsFileSystem())
    log = data.open_log("t", TOPIC_ID, 0, LogConfig())
    batch = build_batch([(1, None, b"acknowledged", ())])
    log.stage(batch, (read_header(batch),), 0)
    log.write(sync=True)
    data.close()
    shutil.rmtree(tmp_path / "t-0")
    first = Start(tmp_path, ends_before_it_registers=True)
    with pytest.raises(KeyboardInterrupt):
        await first.register()
    first.data.close()
    found = []
    for _ in range(2):
        start = Start(tmp_path)
        await start.register()
        start.data.close()
        found.append(start.is_short)
    assert found == [True, False]
