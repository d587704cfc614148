"""What the log of a Delta table says, and what others write into it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kohort.client import TopicPartition
from kohort.pipeline.ingest.batch_table import Batch
from kohort.pipeline.ingest.delta_log import APPLICATION, LOG, DeltaLog, DeltaLogError, parse_commit
from kohort.pipeline.ingest.folder import LocalFolder
from kohort.pipeline.ingest.word import word_on

Transactions = tuple[tuple[str, int], ...]
OURS: Transactions = (("another", 2), (APPLICATION, 40))
BATCH = Batch("q", 7, {TopicPartition("air", 0): 17, TopicPartition("air", 1): 0})


def commit(
    word: str | None, operation: str = "WRITE", transactions: tuple[tuple[str, int], ...] = OURS
) -> str:
    """Return a version's file."""
    told = {"operation": operation, "operationMetrics": {"numOutputRows": "12"}, "userMetadata": word}
    kept = {name: value for name, value in told.items() if value is not None}
    actions: list[dict[str, object]] = [{"protocol": {"minReaderVersion": 1}}, {"commitInfo": kept}]
    actions += [{"txn": {"appId": name, "version": number}} for name, number in transactions]
    return "\n".join(map(json.dumps, [*actions, {"add": {"path": 'a "txn" b'}}]))


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    return DeltaLog(LocalFolder(tmp_path))


def put(tmp_path: Path, version: int, text: str) -> None:
    (tmp_path / LOG).mkdir(exist_ok=True)
    (tmp_path / LOG / f"{version:020d}.json").write_text(text)


def test_a_table_version_has_its_batch_and_rows() -> None:
    found = parse_commit(3, commit(word_on(BATCH, {}, 8, "t")))
    assert found is not None
    assert (found.version, found.number, found.rows, found.word.batch) == (3, 40, 12, BATCH)
    assert (found.word.batches, found.word.token) == (8, "t")


def test_a_query_that_reads_old_records_again_does_not_move_the_end_back() -> None:
    before = {TopicPartition("air", 0): 30, TopicPartition("sea", 0): 5}
    found = parse_commit(3, commit(word_on(BATCH, before, 8, "t")))
    assert found is not None
    assert found.word.batch == BATCH
    assert found.word.positions == {"air": {0: 30, 1: 0}, "sea": {0: 5}}


def test_a_table_version_has_its_topic_ids() -> None:
    batch = replace(BATCH, topic_ids={"air": "id-2"})
    found = parse_commit(3, commit(word_on(batch, {}, 8, "t", {"air": "id-1", "sea": "id-3"})))
    assert found is not None
    assert found.word.topic_ids == {"air": "id-2", "sea": "id-3"}


def test_a_table_version_without_topic_ids_is_still_read() -> None:
    told = json.loads(word_on(BATCH, {}, 8, "t"))
    del told["topic_ids"]
    found = parse_commit(3, commit(json.dumps(told)))
    assert found is not None
    assert found.word.topic_ids == {}


@pytest.mark.parametrize("word", [None, "", "by hand", '{"written_by": "spark"}', "[]"])
def test_the_word_of_others_is_none_of_ours(word: str | None) -> None:
    assert parse_commit(3, commit(word)) is None


def test_the_newest_batch_is_found_behind_commits_of_others(log: DeltaLog, tmp_path: Path) -> None:
    assert (log.version(), log.last_put()) == (-1, None)
    put(tmp_path, 0, commit(word_on(BATCH, {}, 1, "t")))
    put(tmp_path, 1, commit(None, "OPTIMIZE"))
    (tmp_path / LOG / "_last_checkpoint").write_text("{}")
    (tmp_path / LOG / f"{1:020d}.checkpoint.parquet").write_text("")
    (tmp_path / LOG / f"{1:020d}.crc").write_text("")
    found = log.last_put()
    assert found is not None
    assert (log.version(), found.version) == (1, 0)
    assert log.last_put(above=0) is None


def test_a_damaged_version_is_an_error(log: DeltaLog, tmp_path: Path) -> None:
    put(tmp_path, 0, '{"commitInfo": {')
    with pytest.raises(DeltaLogError, match="version 0"):
        log.last_put()


def test_a_batch_without_its_transaction_is_an_error() -> None:
    with pytest.raises(DeltaLogError, match="without its transaction"):
        parse_commit(3, commit(word_on(BATCH, {}, 8, "t"), transactions=OURS[:1]))
