"""The data folder: its lock, its checkpoints in Kafka's formats, its clean-shutdown mark."""

import shutil
from collections.abc import Callable
from inspect import getattr_static
from pathlib import Path
from threading import Thread
from typing import cast
from uuid import UUID

import pytest

from kohort.protocol.records import build_batch, read_header
from kohort.storage import DataDirectory, LogConfig, MetaProperties, OsFileSystem, PartitionLog, StorageError
from kohort.storage.layout import decode_offset_checkpoint, format_uuid, parse_uuid

TOPIC_ID = UUID("0c0ffee0-0000-4000-8000-00000000beef")
CONFIG = LogConfig(segment_bytes=500)


def open_directory(path: Path) -> DataDirectory:
    return DataDirectory.open(path, OsFileSystem())


def log_of(directory: DataDirectory) -> PartitionLog:
    log = directory.records.log("orders", 0)
    assert log is not None
    return log


def recovery_points(directory: DataDirectory) -> dict[tuple[str, int], int]:
    return directory.records.checkpoint()[0].recovery_points


def append(directory: DataDirectory, count: int = 1) -> None:
    log = log_of(directory)
    for _ in range(count):
        batch = build_batch([(1, b"key", b"v" * 50, ())])
        log.stage(batch, (read_header(batch),), 0)
    log.write(True)


def test_a_folder_in_use_cannot_be_opened(tmp_path: Path) -> None:
    first = open_directory(tmp_path)
    with pytest.raises(StorageError, match="in use by another process"):
        open_directory(tmp_path)
    first.close()
    open_directory(tmp_path).close()


def test_a_folder_keeps_its_cluster_and_broker_id(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    assert directory.meta is None
    directory.write_meta("cluster-A", 3)
    directory.close()
    assert (tmp_path / "meta.properties").read_text() == "version=1\ncluster.id=cluster-A\nnode.id=3\n"
    directory = open_directory(tmp_path)
    assert directory.meta == MetaProperties("cluster-A", 3)
    with pytest.raises(StorageError, match="belongs to"):
        directory.write_meta("cluster-B", 3)


def test_meta_properties_that_kafka_wrote_are_read(tmp_path: Path) -> None:
    written = "#\n#Sat Nov 21 2026\nnode.id=1\ndirectory.id=x\nversion=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n"
    (tmp_path / "meta.properties").write_text(written)
    assert open_directory(tmp_path).meta == MetaProperties("4L6g3nShT-eMCtK--X86sw", 1)


def test_a_damaged_meta_properties_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\n")
    with pytest.raises(StorageError, match="version 0"):
        open_directory(tmp_path)


def test_created_partitions_are_listed_with_their_topic_ids(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.create_partitions([("orders", TOPIC_ID, 1), ("orders", TOPIC_ID, 0), ("a-b.c", TOPIC_ID, 7)])
    directory.create_partitions([("orders", TOPIC_ID, 1)])
    assert [(each.topic, each.index, each.topic_id) for each in directory.partitions()] == [
        ("a-b.c", 7, TOPIC_ID),
        ("orders", 0, TOPIC_ID),
        ("orders", 1, TOPIC_ID),
    ]
    assert sorted(path.name for path in (tmp_path / "orders-1").iterdir()) == [
        "00000000000000000000.log",
        "partition.metadata",
    ]
    text = f"version: 0\ntopic_id: {format_uuid(TOPIC_ID)}"
    assert (tmp_path / "orders-1" / "partition.metadata").read_text() == text
    assert parse_uuid(format_uuid(TOPIC_ID)) == TOPIC_ID


def test_a_topic_id_that_a_crash_took_is_written_again(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.create_partitions([("orders", TOPIC_ID, 0)])
    (tmp_path / "orders-0" / "partition.metadata").write_text("")
    assert directory.partitions()[0].topic_id is None
    directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    assert directory.partitions()[0].topic_id == TOPIC_ID


def test_a_clean_shutdown_is_marked_and_the_mark_is_removed_at_the_next_start(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory, 10)
    directory.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 10\n"
    directory = open_directory(tmp_path)
    assert directory.is_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert recovery_points(directory) == {("orders", 0): 10}
    del directory
    assert not open_directory(tmp_path).is_clean


def test_a_log_that_failed_is_no_clean_shutdown(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    (tmp_path / "orders-0").rename(tmp_path / "elsewhere-0")
    batch = build_batch([(1, b"key", b"v", ())])
    log.stage(batch, (read_header(batch),), 0)
    with pytest.raises(StorageError, match="takes no more appends"):
        log.write(True)
    with pytest.raises(StorageError):
        directory.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_deleted_records_stay_deleted_after_a_crash(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory, 10)
    log.delete_records_before(7, 0)
    directory.checkpoint()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 7\n"
    del directory, log
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    assert (log.log_start_offset, log.log_end_offset) == (7, 10)


def test_the_recovery_point_follows_the_segments(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory, 10)
    directory.checkpoint()
    newest = max((tmp_path / "orders-0").glob("*.log"))
    assert (
        recovery_points(directory) == {("orders", 0): int(newest.stem)} == {("orders", 0): log.recovery_point}
    )


def test_a_deleted_partition_is_gone_and_a_half_deleted_one_is_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    directory = open_directory(tmp_path)
    for index in (0, 1):
        directory.open_log("orders", TOPIC_ID, index, CONFIG)
    append(directory)
    directory.delete_log("orders", 0)
    (tmp_path / "orders-1").rename(tmp_path / f"orders-1.{TOPIC_ID.hex}-delete")
    directory.records.take_log(("orders", 1), TOPIC_ID)
    directory.close()
    directory = open_directory(tmp_path)
    assert directory.partitions() == ()
    assert not list(tmp_path.glob("orders*"))


def test_a_failed_log_is_opened_again(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory, 10)
    again = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    assert again is not log
    assert again.log_end_offset == 10


def test_a_damaged_checkpoint_is_ignored() -> None:
    assert decode_offset_checkpoint(b"0\n2\norders 0 7\n") is None
    assert decode_offset_checkpoint(b"nonsense") is None
    assert decode_offset_checkpoint(b"0\n1\norders 0 7\n") == {("orders", 0): 7}


def test_a_recreated_topic_keeps_its_records_after_a_crash(tmp_path: Path) -> None:
    """The checkpoint still said that the deleted one's log begins at 7."""
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory, 10)
    log.delete_records_before(7, 0)
    directory.checkpoint()
    directory.delete_log("orders", 0)
    directory.create_partitions([("orders", UUID(int=2), 0)])
    directory.open_log("orders", UUID(int=2), 0, CONFIG)
    append(directory, 3)
    del directory, log
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", UUID(int=2), 0, CONFIG)
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    assert directory.records.known_end("orders", 0) == 0


def test_a_checkpoint_has_the_synced_end_of_each_log(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory, 10)
    directory.checkpoint()
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 10\n"
    del directory
    newest = max((tmp_path / "orders-0").glob("*.log"))
    newest.write_bytes(newest.read_bytes()[:-1])
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    assert directory.records.known_end("orders", 0) == 10 > log.log_end_offset


class Meanwhile:
    """What another thread does while a checkpoint looks at the first log: it ends, or waits for its turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
        self._thread = Thread(target=action)
        self._looked = False
        point = cast(property, getattr_static(PartitionLog, "recovery_point")).fget
        assert point is not None

        def recovery_point(log: PartitionLog) -> int:
            if not self._looked:
                self._looked = True
                self._thread.start()
                self._thread.join(0.2)
            return cast(int, point(log))

        monkeypatch.setattr(PartitionLog, "recovery_point", property(recovery_point))

    def join(self) -> None:
        self._thread.join()


def test_a_topic_deleted_during_a_checkpoint_leaves_no_log_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = open_directory(tmp_path)
    directory.open_log("first", TOPIC_ID, 0, CONFIG)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory, 10)
    log.delete_records_before(7, 0)
    meanwhile = Meanwhile(monkeypatch, lambda: directory.delete_log("orders", 0))
    directory.checkpoint()
    meanwhile.join()
    again = directory.open_log("orders", UUID(int=2), 0, CONFIG)
    assert (again.log_start_offset, again.log_end_offset) == (0, 0)
    assert directory.records.known_end("orders", 0) == 0


def test_the_cleaned_offset_of_a_deleted_log_does_not_apply_to_its_successor(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    directory.delete_log("orders", 0)
    directory.open_log("orders", UUID(int=2), 0, CONFIG)
    directory.save_cleaner_offset("orders", 0, 1_000, cleaned=log)
    assert directory.records.cleaner_offset("orders", 0) is None


def test_a_partition_without_its_folder_is_missing(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.create_partitions([("orders", TOPIC_ID, 0), ("orders", TOPIC_ID, 1)])
    directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory)
    directory.close()
    shutil.rmtree(tmp_path / "orders-0")
    directory = open_directory(tmp_path)
    assert [directory.records.is_missing("orders", index) for index in (0, 1, 2)] == [True, False, False]


@pytest.mark.parametrize("is_stopped", [True, False])
@pytest.mark.parametrize("loss", ["folder", "end"])
def test_a_start_that_ends_early_does_not_hide_a_loss_from_the_next(
    tmp_path: Path, loss: str, is_stopped: bool
) -> None:
    directory = open_directory(tmp_path)
    directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory, 10)
    directory.close()
    if loss == "folder":
        shutil.rmtree(tmp_path / "orders-0")
    else:
        max((tmp_path / "orders-0").glob("*.log")).write_bytes(b"")
    for _ in range(2):
        directory = open_directory(tmp_path)
        directory.records.begin_check()
        log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
        is_missing = directory.records.is_missing("orders", 0)
        assert is_missing or directory.records.known_end("orders", 0) == 10 > log.log_end_offset
        directory.checkpoint()
        if is_stopped:
            directory.close()
        directory._lock = None
    directory = open_directory(tmp_path)
    directory.records.begin_check()
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    directory.records.end_check()
    directory.checkpoint()
    directory._lock = None
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    assert directory.records.known_end("orders", 0) == log.log_end_offset < 10


def test_a_stop_before_a_crash_was_looked_into_is_not_clean(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory)
    directory._lock = None  # The process is gone.
    directory = open_directory(tmp_path)
    directory.records.begin_check()
    directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    removed: list[str] = []
    directory.close(when_sound=lambda: removed.append("the journal"))
    assert not removed
    assert not open_directory(tmp_path).is_clean


def test_a_log_that_was_cut_is_not_short_at_the_next_start(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    append(directory, 10)
    directory.checkpoint()
    log_of(directory).truncate_to(3)
    directory.was_cut("orders", 0)
    directory._lock = None  # The process is gone.
    directory = open_directory(tmp_path)
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    assert directory.records.known_end("orders", 0) == 3 == log.log_end_offset


def test_a_folder_gets_another_id(tmp_path: Path) -> None:
    directory = open_directory(tmp_path)
    directory.write_meta("cluster-A", 3)
    directory.ensure_directory_id(TOPIC_ID)
    directory.renew_directory_id(UUID(int=7))
    directory.close()
    directory = open_directory(tmp_path)
    assert directory.directory_id == directory.ensure_directory_id(TOPIC_ID) == UUID(int=7)
    assert directory.meta == MetaProperties("cluster-A", 3)
