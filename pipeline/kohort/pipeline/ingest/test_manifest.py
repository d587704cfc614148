"""The manifest over real files, and its list as it changes."""

from pathlib import Path

import msgspec
import pytest

from kohort.client import TopicPartition
from kohort.pipeline.ingest import manifest as module
from kohort.pipeline.ingest.folder import LocalFolder
from kohort.pipeline.ingest.manifest import (
    CHANGES_PER_WHOLE,
    DIGITS,
    Entry,
    Manifest,
    ManifestError,
    ManifestLog,
    nested,
)

AIR = TopicPartition("air", 0)


def entry(batch_id: int, end: int, query_id: str = "q", file: str = "") -> Entry:
    return Entry(
        query_id, batch_id, (file or f"data/{query_id}{batch_id}/a.parquet",), 1, nested({AIR: end}), ""
    )


def filled(log: ManifestLog, *entries: Entry) -> Manifest:
    manifest = log.read()
    for each in entries:
        manifest = log.append(manifest, each)
    return manifest


def of_topic(each: Entry, topic_id: str) -> Entry:
    return msgspec.structs.replace(each, topic_ids={AIR.topic: topic_id})


@pytest.fixture
def log(tmp_path: Path) -> ManifestLog:
    return ManifestLog(LocalFolder(tmp_path))


def test_a_table_that_was_never_written_is_empty(log: ManifestLog) -> None:
    assert log.read() == Manifest()


def test_an_appended_entry_is_read_by_every_reader(log: ManifestLog, tmp_path: Path) -> None:
    written = filled(log, entry(0, 5), entry(1, 9))
    assert ManifestLog(LocalFolder(tmp_path)).read() == written
    assert written.positions() == {AIR: 9}
    assert written.files == ("data/q0/a.parquet", "data/q1/a.parquet")


def test_a_batch_written_again_replaces_the_former_one(log: ManifestLog) -> None:
    manifest = filled(log, entry(0, 5), entry(1, 9), entry(1, 8, file="data/other"))
    assert [each.batch_id for each in manifest.entries] == [0, 1]
    assert manifest.files == ("data/q0/a.parquet", "data/other")
    assert manifest.positions() == {AIR: 8}


def test_a_batch_of_a_rolled_back_checkpoint_removes_later_ones(log: ManifestLog) -> None:
    manifest = filled(log, entry(0, 5), entry(1, 9), entry(2, 12), entry(1, 7))
    assert [each.batch_id for each in manifest.entries] == [0, 1]
    assert log.read() == manifest


def test_entries_of_another_query_stay(log: ManifestLog) -> None:
    manifest = filled(log, entry(0, 5), entry(1, 9), entry(0, 3, query_id="r"))
    assert manifest.rows == 3
    assert manifest.positions() == {AIR: 9}
    assert manifest.of("q", 0) is not None
    assert manifest.of("r", 1) is None


def test_the_slower_of_two_writers_is_refused(log: ManifestLog, tmp_path: Path) -> None:
    stale = log.read()
    filled(log, entry(0, 5))
    with pytest.raises(ManifestError, match="another writer"):
        ManifestLog(LocalFolder(tmp_path)).append(stale, entry(0, 6))
    assert log.read().positions() == {AIR: 5}


def test_many_changes_are_read_from_few_files(log: ManifestLog, tmp_path: Path) -> None:
    manifest = filled(log, *(entry(number, number + 1) for number in range(4 * CHANGES_PER_WHOLE + 3)))
    assert log.read() == manifest
    assert len(manifest.entries) == 4 * CHANGES_PER_WHOLE + 3
    assert len(list((tmp_path / module.MANIFEST).iterdir())) <= 2 * CHANGES_PER_WHOLE + 4


def test_a_driver_that_dies_before_the_full_list_is_written_loses_no_entry(
    log: ManifestLog, tmp_path: Path
) -> None:
    manifest = filled(log, *(entry(number, number + 1) for number in range(CHANGES_PER_WHOLE)))
    (tmp_path / module.MANIFEST / f"{CHANGES_PER_WHOLE - 1:0{DIGITS}}{module.WHOLE}").unlink()
    assert log.read() == manifest


def test_a_half_written_file_of_a_killed_driver_is_never_read(log: ManifestLog, tmp_path: Path) -> None:
    manifest = filled(log, entry(0, 5))
    (tmp_path / module.MANIFEST / f".{1:0{DIGITS}}.json.0123").write_text('{"entry":')
    assert log.read() == manifest
    assert log.append(manifest, entry(1, 6)).version == 1


def test_a_change_that_is_missing_or_damaged_is_an_error(log: ManifestLog, tmp_path: Path) -> None:
    filled(log, entry(0, 5), entry(1, 6), entry(2, 7))
    path = tmp_path / module.MANIFEST / f"{1:0{DIGITS}}.json"
    path.write_text("{}")
    with pytest.raises(ManifestError, match="damaged"):
        log.read()
    path.unlink()
    with pytest.raises(ManifestError, match="missing"):
        log.read()


def test_a_recreated_topic_starts_with_no_entries(log: ManifestLog) -> None:
    """An older query's entry tells of the offsets of the topic that is gone."""
    gone, new = of_topic(entry(0, 90), "id-1"), of_topic(entry(0, 7, query_id="r"), "id-2")
    manifest = filled(log, gone, new)
    assert manifest.topic_ids() == {AIR.topic: "id-2"}
    assert manifest.positions() == {AIR: 7}


def test_an_entry_without_topic_ids_counts_as_it_did(log: ManifestLog) -> None:
    manifest = filled(log, entry(0, 90), of_topic(entry(0, 7, query_id="r"), "id-2"))
    assert manifest.positions() == {AIR: 90}
