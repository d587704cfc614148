"""What Spark writes into a checkpoint, read: the lines below are those of Spark 4.2."""

from pathlib import Path

import pytest

from kohort.client import TopicPartition
from kohort.pipeline.ingest.checkpoint import Checkpoint, CheckpointError, Progress, parse_offsets
from kohort.pipeline.ingest.folder import LocalFolder

ABOUT = '{"batchWatermarkMs":0,"batchTimestampMs":1795257092506,"conf":{"spark.sql.shuffle.partitions":"2"}}'
AIR = [TopicPartition("air", number) for number in range(3)]


def written(folder: Path, **files: str) -> Checkpoint:
    """A checkpoint with these files: `commits_0` is commits/0."""
    for name, text in files.items():
        path = folder / name.replace("_", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Checkpoint(LocalFolder(folder))


def offsets(*lines: str, version: str = "v1") -> str:
    return "\n".join((version, ABOUT, *lines))


def test_an_offsets_file_gives_the_next_offset_of_each_partition() -> None:
    assert parse_offsets(offsets('{"air":{"0":129,"2":140}}')) == {AIR[0]: 129, AIR[2]: 140}


def test_lines_of_version_2_name_their_source() -> None:
    assert parse_offsets(offsets('0:{"air":{"0":129}}', version="v2")) == {AIR[0]: 129}
    assert parse_offsets(offsets('my-source:{"air":{"1":5}}', version="v2")) == {AIR[1]: 5}


def test_of_two_sources_of_one_partition_the_slower_counts() -> None:
    two = offsets('{"air":{"0":9,"1":9}}', '{"air":{"0":7},"sea":{"0":1}}')
    assert parse_offsets(two) == {AIR[0]: 7, AIR[1]: 9, TopicPartition("sea", 0): 1}


@pytest.mark.parametrize("line", ["-", '{"logOffset":4}', "17", '{"a":{"b":"c"}}'])
def test_sources_without_topics_are_skipped(line: str) -> None:
    assert parse_offsets(offsets(line, '{"air":{"0":1}}')) == {AIR[0]: 1}


@pytest.mark.parametrize("text", ["", "v9\n{}\n{}", offsets("{torn")])
def test_an_invalid_offsets_file_is_an_error(text: str) -> None:
    with pytest.raises(CheckpointError):
        parse_offsets(text)


def test_progress_is_the_newest_committed_batch(tmp_path: Path) -> None:
    checkpoint = written(
        tmp_path,
        offsets_9=offsets('{"air":{"0":90}}'),
        offsets_10=offsets('{"air":{"0":100}}'),
        offsets_11=offsets('{"air":{"0":110}}'),
        commits_9='v1\n{"nextBatchWatermarkMs":0}',
        commits_10='v1\n{"nextBatchWatermarkMs":0}',
    )
    assert checkpoint.progress() == Progress(10, {AIR[0]: 100})
    assert checkpoint.is_committed(10)
    assert not checkpoint.is_committed(11)
    assert checkpoint.starts_of(11) == {AIR[0]: 100}


def test_a_new_checkpoint_has_neither_progress_nor_a_query(tmp_path: Path) -> None:
    checkpoint = Checkpoint(LocalFolder(tmp_path / "none"))
    assert checkpoint.progress() is None
    assert checkpoint.query_id() is None


def test_hadoop_checksum_files_are_not_commits(tmp_path: Path) -> None:
    checkpoint = written(tmp_path, **{"commits_.0.crc": "crc"})
    assert checkpoint.progress() is None


def test_the_first_batch_starts_at_the_offsets_that_the_source_stored(tmp_path: Path) -> None:
    assert written(tmp_path).starts_of(0) == {}
    checkpoint = written(tmp_path, sources_0_0='\0v1\n{"air":{"0":4,"1":0}}')
    assert checkpoint.starts_of(0) == {AIR[0]: 4, AIR[1]: 0}


def test_damage_is_named(tmp_path: Path) -> None:
    checkpoint = written(tmp_path, commits_3="v1\n{}", metadata="{}")
    with pytest.raises(CheckpointError, match="offsets/3 is missing"):
        checkpoint.progress()
    with pytest.raises(CheckpointError, match="metadata"):
        checkpoint.query_id()
    with pytest.raises(CheckpointError, match="version 'v7'"):
        written(tmp_path, commits_4="v7\n{}").progress()


def test_the_query_has_an_id(tmp_path: Path) -> None:
    assert written(tmp_path, metadata='{"id":"11d19f35"}').query_id() == "11d19f35"
