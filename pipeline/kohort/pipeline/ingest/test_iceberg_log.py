"""Batches in an Iceberg table: what others change meanwhile, and what is in it already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.transforms import BucketTransform

from kohort.client import TopicPartition
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.iceberg import IcebergName, NoIcebergError, open_catalog, parse_name
from kohort.pipeline.ingest import iceberg_log
from kohort.pipeline.ingest.batch_table import Batch, ColumnsError, TableTakenError
from kohort.pipeline.ingest.iceberg_log import NOTE, IcebergLog, IcebergLogError
from kohort.pipeline.ingest.word import word_on

AIR = TopicPartition("air", 0)
COLUMNS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
NAME = IcebergName("lake", ("tests", "air"))
Open = Callable[[], IcebergLog]


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog in a file, with a connection for each driver."""

    def found(name: str = "lake") -> Catalog:
        warehouse = f"file://{tmp_path}/warehouse"
        return SqlCatalog(name, uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=warehouse)

    monkeypatch.setattr(iceberg_log, "open_catalog", found)
    return found()


@pytest.fixture
def log(catalog: Catalog) -> IcebergLog:
    log = IcebergLog(NAME)
    log.make(COLUMNS, ())
    return log


def file(log: IcebergLog, first: int, count: int = 10, columns: pa.Schema = COLUMNS) -> str:
    """Write a file of records; return its name."""
    table = pa.table(
        {"topic": ["air"] * count, "partition": [0] * count, "offset": range(first, first + count)}
    )
    name = f"{log.location}/data/{first}-{count}.parquet"
    path = Path(name.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.cast(columns), path)
    return name


def note(number: int, token: str = "token") -> str:
    return word_on(Batch("query", number, {AIR: 10 * (number + 1)}), {}, number + 1, token)


def offsets(catalog: Catalog) -> list[int]:
    found = catalog.load_table(NAME.identifier).scan().to_arrow()
    return sorted(found["offset"].to_pylist())


def test_a_batch_is_one_snapshot_with_its_note(log: IcebergLog, catalog: Catalog) -> None:
    assert log.last is None
    log.add([file(log, 0), file(log, 10, 5)], 15, note(0))
    log.add([file(log, 20)], 10, note(1))
    for each in (log, IcebergLog(NAME)):
        assert each.last is not None
        assert (each.last.batch_id, each.last.batches, each.rows) == (1, 2, 25)
    table = catalog.load_table(NAME.identifier)
    assert len(table.snapshots()) == 2
    assert "commit.retry.num-retries" not in table.properties
    assert offsets(catalog) == [*range(15), *range(20, 30)]


def test_a_batch_without_records_is_noted_and_seen_by_others(log: IcebergLog, catalog: Catalog) -> None:
    other = IcebergLog(NAME)
    log.add([], 0, note(0))
    with pytest.raises(TableTakenError, match="put a batch into"):
        other.add([], 0, note(0, "other"))
    assert other.last == log.last
    assert offsets(catalog) == []


def test_a_driver_that_was_slower_puts_nothing_in(log: IcebergLog, catalog: Catalog) -> None:
    late = IcebergLog(NAME)
    for number in range(3):
        log.add([file(log, 10 * number)], 10, note(number))
    with pytest.raises(TableTakenError, match=r"another driver has put a batch into lake\.tests\.air"):
        late.add([file(late, 0, 9)], 9, note(0, "late"))
    assert offsets(catalog) == list(range(30))
    assert late.last == log.last


def test_changes_that_are_no_batches_are_no_conflict(log: IcebergLog, catalog: Catalog) -> None:
    log.add([file(log, 0)], 10, note(0))
    table = catalog.load_table(NAME.identifier)
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "someone"})
    table.overwrite(table.scan().to_arrow())  # As a compaction does.
    log.add([file(log, 10)], 10, note(1))
    assert offsets(catalog) == list(range(20))
    assert catalog.load_table(NAME.identifier).properties["owner"] == "someone"


@pytest.mark.parametrize("error", [CommitStateUnknownException("gone"), CommitFailedException("sent twice")])
def test_a_commit_whose_answer_was_lost_counts_once(
    log: IcebergLog, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    commit = IcebergLog._commit

    def lost(self: IcebergLog, *arguments: Any) -> None:
        commit(self, *arguments)
        raise error

    monkeypatch.setattr(IcebergLog, "_commit", lost)
    log.add([file(log, 0)], 10, note(0))
    assert offsets(catalog) == list(range(10))


def test_a_commit_that_never_arrived_is_sent_again(
    log: IcebergLog, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, failed = IcebergLog._commit, list[object]()

    def first_lost(self: IcebergLog, *arguments: Any) -> None:
        if not failed:
            failed.append(arguments)
            raise CommitStateUnknownException("gone")
        commit(self, *arguments)

    monkeypatch.setattr(IcebergLog, "_commit", first_lost)
    log.add([file(log, 0)], 10, note(0))
    assert offsets(catalog) == list(range(10))


def test_a_table_that_is_dropped_before_the_commit_is_an_error(log: IcebergLog, catalog: Catalog) -> None:
    files = [file(log, 0)]
    catalog.drop_table(NAME.identifier)
    log.look()
    with pytest.raises(IcebergLogError, match="somebody has dropped it"):
        log.add(files, 10, note(0))


def test_columns_of_another_type_are_refused(log: IcebergLog, catalog: Catalog) -> None:
    texts = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.string())])
    with pytest.raises(ColumnsError, match=r"the batch does not go into lake\.tests\.air"):
        log.add([file(log, 0, columns=texts)], 10, note(0))
    assert IcebergLog(NAME).last is None
    assert offsets(catalog) == []


def test_files_with_fewer_rows_than_were_written_are_an_error(log: IcebergLog, catalog: Catalog) -> None:
    for files in ([], [file(log, 0)]):
        with pytest.raises(DataLossError):
            log.add(files, 20, note(0))
    assert IcebergLog(NAME).last is None
    assert offsets(catalog) == []


def test_the_positions_of_anothers_table_come_from_its_rows(log: IcebergLog, catalog: Catalog) -> None:
    catalog.load_table(NAME.identifier).add_files([file(log, 0), file(log, 10, 7)])
    log.look()
    assert (log.last, log.rows, log.positions_of_rows()) == (None, 17, {AIR: 17})
    catalog.create_table("tests.other", pa.schema([("value", pa.string())]))
    with pytest.raises(DataLossError, match="no columns topic, partition, offset"):
        IcebergLog(IcebergName("lake", ("tests", "other"))).positions_of_rows()


def test_another_programs_note_is_none_of_ours(log: IcebergLog, catalog: Catalog) -> None:
    for text in ("{}", "no JSON", note(0).replace("kohort", "another")):
        with catalog.load_table(NAME.identifier).transaction() as transaction:
            transaction.set_properties({NOTE: text})
        log.look()
        assert log.last is None


def test_a_table_is_partitioned_by_columns_as_they_are(catalog: Catalog) -> None:
    log = IcebergLog(NAME)
    log.make(COLUMNS, ("topic", "partition"))
    assert log.partition_by == ("topic", "partition")
    log.add([file(log, 0)], 10, note(0))
    with catalog.load_table(NAME.identifier).update_spec() as spec:
        spec.add_field("offset", BucketTransform(4), "bucket")
    log.look()
    with pytest.raises(IcebergLogError, match=r"is partitioned by bucket\[4\]"):
        _ = log.partition_by


def test_of_two_drivers_one_makes_the_table(catalog: Catalog) -> None:
    logs = [IcebergLog(NAME), IcebergLog(NAME)]
    logs[0].make(COLUMNS, ())
    with pytest.raises(TableTakenError):
        logs[1].make(COLUMNS, ())


@pytest.mark.parametrize(
    "text", ["flights", "lake.flights", "/data/flights", "lake..flights", "s3://a/b.c.d"]
)
def test_what_is_no_name_of_a_table_is_refused(text: str) -> None:
    with pytest.raises(NoIcebergError, match=r"give CATALOG\.NAMESPACE\.TABLE"):
        parse_name(text)


def test_a_catalog_that_is_not_configured_is_named() -> None:
    with pytest.raises(NoIcebergError, match="PYICEBERG_CATALOG__NOWHERE__URI"):
        open_catalog("nowhere")
