"""What `dump` says of every kind of file, and of files that are damaged."""

from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.records import build_batch, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, StorageError
from kohort.storage.dump import DumpOptions, dump
from kohort.storage.journal import Journal, Written

TOPIC_ID = UUID(int=5)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    log = directory.open_log("orders", TOPIC_ID, 0, LogConfig(index_interval_bytes=100))
    for number in range(5):
        records = [(1000 + number, b"key", b"value %d" % number, (("h", b"1"),))]
        batch = build_batch(records, producer_id=9, producer_epoch=0, base_sequence=number)
        log.stage(batch, (read_header(batch),), 3)
    directory.close()
    return tmp_path


def lines(path: Path, *, deep: bool = False, offsets: bool = False, sanity: bool = False) -> list[str]:
    options = DumpOptions(deep=deep, offsets=offsets, index_sanity_check=sanity)
    return [line.text for line in dump(OsFileSystem(), path, options)]


def test_a_log_is_dumped_with_batches_and_records(data: Path) -> None:
    log = data / "orders-0" / f"{0:020d}.log"
    said = lines(log, deep=True)
    assert said[:2] == [f"Dumping {log}", "Log starting offset: 0"]
    assert said[2].startswith(
        "baseOffset: 0 lastOffset: 0 count: 1 baseSequence: 0 lastSequence: 0 producerId: 9"
    )
    assert said[2].endswith("isvalid: true")
    sizes = "| offset: 0 CreateTime: 1000 keySize: 3 valueSize: 7 sequence: 0 "
    assert said[3] == f"{sizes}headerKeys: [h] key: key payload: value 0"
    assert len(said) == 12
    assert len(lines(log)) == 7


def test_a_folder_is_dumped_file_by_file(data: Path) -> None:
    said = lines(data)
    assert "topic: orders partition: 0 offset: 5" in said
    assert "epoch: 3 startOffset: 0" in said
    assert "timestamp: 1004 offset: 4" in said
    assert "offset: 2 position: 164" in said
    assert any(text.startswith("producerId: 9 producerEpoch: 0 coordinatorEpoch: -1") for text in said)
    assert "topicId: AAAAAAAAAAAAAAAAAAAABQ" in said


def test_damage_is_a_complaint_and_no_error(data: Path) -> None:
    for path in (data / "orders-0").iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    complaints = [
        line.text for line in dump(OsFileSystem(), data, DumpOptions(deep=True)) if line.kind == "complaint"
    ]
    assert f"Found {82 - 3} invalid bytes at the end of {0:020d}.log" in complaints
    assert "leader-epoch-checkpoint is damaged: it counts for nothing" in complaints


def test_indexes_are_only_checked_on_request(data: Path) -> None:
    index = data / "orders-0" / f"{0:020d}.index"
    assert lines(index, sanity=True)[1:] == [f"{index.name} passed sanity check."]
    index.write_bytes(bytes(8) + b"\xff" * 8)
    assert "failed the sanity check" in lines(index, sanity=True)[1]
    index.write_bytes(b"\0\0\0\1\0\0\0\7")
    assert lines(index)[2] == f"{index.name}: offset 1: no batch begins at position 7"


def test_the_journal_is_dumped_entry_by_entry(tmp_path: Path) -> None:
    journal = Journal(OsFileSystem(), tmp_path, 10_000)
    log = DataDirectory.open(tmp_path, OsFileSystem()).open_log("orders", TOPIC_ID, 4, LogConfig())
    batch = build_batch([(1, None, b"a", ())])
    log.stage(batch, (read_header(batch),), 0)
    staged = log.take_staged()
    log.write_staged(staged, sync=False)
    journal.append([Written(log, staged.batches)])
    said = lines(tmp_path / "group-commit.journal", deep=True)
    assert said[1].endswith("topicId: AAAAAAAAAAAAAAAAAAAABQ partition: 4")
    assert said[3].endswith("payload: a")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(StorageError, match="no file of a log"):
        lines(tmp_path / "notes.txt")
