"""Drivers that write to one table at once, some of which were thought dead long ago."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kohort.client import TopicPartition
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.ingest import writer
from kohort.pipeline.ingest.folder import LocalFolder
from kohort.pipeline.ingest.manifest import DATA, Entry, Manifest, ManifestError, ManifestLog, nested
from kohort.pipeline.ingest.writer import TableWriter, folder_of, generation_of, require_rows

AIR = TopicPartition("air", 0)
FILE = "part.parquet"


class Table:
    """A table on this machine, and what must hold of it whoever has done what."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def log(self) -> ManifestLog:
        return ManifestLog(LocalFolder(self.path))

    def writer(self) -> TableWriter:
        return TableWriter(self.log())

    def check(self) -> None:
        """Assert that every file of the table is there, and that each batch is in it once."""
        manifest = self.log().read()
        missing = [file for file in manifest.files if not (self.path / file).exists()]
        assert not missing
        batches = [each.batch_id for each in manifest.entries]
        assert batches == list(range(len(batches)))

    def folders(self) -> set[str]:
        return {each.name for each in (self.path / DATA).iterdir()}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def write_files(table: Table, driver: TableWriter, batch_id: int) -> Entry:
    folder = driver.new_folder(batch_id)
    (table.path / folder).mkdir(parents=True)
    (table.path / folder / FILE).write_text("records")
    return Entry("q", batch_id, (f"{folder}/{FILE}",), 1, nested({AIR: batch_id}), "")


def drive(table: Table, driver: TableWriter, batches: int) -> None:
    """Write so many batches more."""
    driver.begin()
    for _ in range(batches):
        driver.put(write_files(table, driver, len(driver.manifest.entries)))


@pytest.mark.parametrize("behind", [1, 50, 51, 101, 200])
def test_a_driver_that_lags_changes_nothing(table: Table, behind: int) -> None:
    """The numbers of old changes are free again where the manifest was shortened."""
    stale = table.writer()
    drive(table, stale, 3)
    late = write_files(table, stale, 3)
    drive(table, table.writer(), behind)
    before, folders = table.log().read(), table.folders()
    with pytest.raises(ManifestError, match="newer driver"):
        stale.put(late)
    with pytest.raises(ManifestError, match="another writer"):  # Also one that knows of no generations.
        stale.log.append(stale.manifest, late)
    assert table.log().read() == before
    assert table.folders() == folders
    table.check()


def test_a_driver_that_falls_behind_within_a_change_undoes_it(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = table.writer()
    drive(table, stale, 1)
    late = write_files(table, stale, 1)
    create = LocalFolder.create

    def overtaken(folder: LocalFolder, name: str, text: str) -> None:
        monkeypatch.setattr(LocalFolder, "create", create)
        drive(table, table.writer(), 120)
        create(folder, name, text)

    monkeypatch.setattr(LocalFolder, "create", overtaken)
    with pytest.raises(ManifestError, match="another writer"):
        stale.put(late)
    assert len(table.log().read().entries) == 121
    table.check()


def test_a_new_driver_deletes_leftovers_of_former_ones_and_not_files_of_newer_ones(table: Table) -> None:
    (table.path / DATA / "batch-00000000000000000000-abc").mkdir(parents=True)
    first, second = table.writer(), table.writer()
    first.begin()
    left = write_files(table, first, 0)
    second.begin()
    second.put(write_files(table, second, 0))
    assert left.files[0].split("/")[1] not in table.folders()
    assert len(table.folders()) == 1
    table.check()


def test_a_driver_that_pauses_before_its_cleanup_keeps_newer_files(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, newer = table.writer(), table.writer()
    paused.begin()
    clear = writer.clear_leftovers

    def clear_late(log: ManifestLog, manifest: Manifest, generation: int) -> int:
        monkeypatch.undo()
        newer.begin()
        coming = write_files(table, newer, 1)
        cleared = clear(log, manifest, generation)
        newer.put(coming)
        return cleared

    monkeypatch.setattr(writer, "clear_leftovers", clear_late)
    paused.put(write_files(table, paused, 0))
    assert len(table.log().read().entries) == 2
    table.check()


def test_a_driver_that_begins_sees_entries_added_since_it_was_created(table: Table) -> None:
    early = table.writer()
    drive(table, table.writer(), 4)
    early.begin()
    assert len(early.manifest.entries) == 4
    drive(table, early, 1)
    table.check()


def test_rows_that_the_driver_does_not_see_are_an_error() -> None:
    require_rows(0, 0, "data/x")
    with pytest.raises(DataLossError, match="executors share"):
        require_rows(3, 7, "data/x")


def test_a_folder_name_has_the_generation_of_its_driver() -> None:
    assert generation_of(folder_of(17, 3)) == 17
    assert generation_of("batch-00000000000000000003-0123456789ab") == 0
    assert folder_of(1, 1) != folder_of(1, 1)


def steps(table: Table, random: Random) -> Iterator[None]:
    """Drive a table, and stop anywhere for others to go on."""
    driver = table.writer()
    yield
    driver.begin()
    yield
    while True:
        entry = write_files(table, driver, len(driver.manifest.entries))
        yield
        driver.put(entry)
        if random.random() < 0.3:
            yield


@pytest.mark.parametrize("seed", range(6))
def test_two_drivers_at_once_and_restarts_leave_the_table_whole(table: Table, seed: int) -> None:
    random = Random(seed)
    drivers: list[Iterator[None]] = []
    for _ in range(250):
        if len(drivers) < 2 or random.random() < 0.03:
            drivers.append(steps(table, random))
        driver = random.choice(drivers)
        try:
            next(driver)
        except ManifestError:
            drivers.remove(driver)
        table.check()
    assert len(table.log().read().entries) > 25, f"seed {seed}"
