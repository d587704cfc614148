"""An Iceberg table as its catalog has it: the note on the newest batch, and how another one is put in.

A batch is one snapshot, made by a commit that adds the batch's files and changes the note, a property of the
table. The catalog takes the commit only on the snapshot that this driver has seen. A refused commit is tried
again while the note is the same: then the other change was no batch, but a compaction for example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.transforms import IdentityTransform

from kohort.client import TopicPartition
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.iceberg import IcebergName, open_catalog
from kohort.pipeline.ingest.batch_table import PLACE, ColumnsError, require_place
from kohort.pipeline.ingest.checkpoint import Offsets
from kohort.pipeline.ingest.word import Word, read_word, taken
from kohort.pipeline.ingest.writer import require_rows

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

NOTE = "kohort.ingest"
"""The property of a table that has the note on its newest batch."""
ATTEMPTS_MAX = 20
"""So many commits of one batch may lose to changes of others that are no batches."""
NEVER_AGAIN = {"commit.retry.num-retries": "0"}


class IcebergLogError(PipelineError):
    """An Iceberg table that this ingest cannot write to."""


class IcebergLog:
    """The batches in one Iceberg table."""

    def __init__(self, name: IcebergName) -> None:
        """Look at the table, which need not be there yet. Raises: NoIcebergError."""
        self.name = name
        self._catalog = open_catalog(name.catalog)
        self._table: Table | None = None
        self.last: Word | None = None
        self.look()

    def look(self) -> None:
        """Read what others have changed."""
        try:
            self._table = self._catalog.load_table(self.name.identifier)
        except NoSuchTableError:
            self._table = None
        self.last = None if self._table is None else read_word(self._table.properties.get(NOTE))

    @property
    def is_there(self) -> bool:
        """Whether there is the table."""
        return self._table is not None

    @property
    def rows(self) -> int:
        """The rows in the table."""
        return 0 if self._table is None else _figure(self._table.metadata, "total-records")

    @property
    def location(self) -> str:
        """The folder of the table, which is there."""
        return self._there().location().rstrip("/")

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that the table is partitioned by. Raises: IcebergLogError for other partitions."""
        table = self._there()
        found = []
        for each in table.spec().fields:
            if not isinstance(each.transform, IdentityTransform):
                raise IcebergLogError(
                    f"{self.name} is partitioned by {each.transform}({each.name}): an ingest writes to tables"
                    " that are partitioned by columns as they are"
                )
            found.append(table.schema().find_column_name(each.source_id) or "")
        return tuple(found)

    def make(self, columns: pa.Schema, partition_by: Sequence[str]) -> None:
        """Make the table. Raises: TableTakenError where another driver was quicker."""
        self._catalog.create_namespace_if_not_exists(self.name.identifier[:-1])
        try:
            with (
                self._catalog.create_table_transaction(self.name.identifier, columns) as transaction,
                transaction.update_spec() as spec,
            ):
                for each in partition_by:
                    spec.add_identity(each)
        except (TableAlreadyExistsError, CommitFailedException):
            raise taken(str(self.name)) from None
        self.look()

    def add(self, files: Sequence[str], rows: int, note: str) -> None:
        """Put the files in, which have so many rows, as one snapshot with this note.

        Raises: TableTakenError where another driver was quicker, ColumnsError, DataLossError.
        """
        seen, word = self.last, read_word(note)
        for _ in range(ATTEMPTS_MAX):
            try:
                self._commit(files, rows, note)
                self.last = word
            except (CommitFailedException, CommitStateUnknownException):
                self.look()
            if self.last == word:  # Also where the answer was lost, and not the commit.
                return
            if self.last != seen:
                break
        raise taken(str(self.name))

    def _commit(self, files: Sequence[str], rows: int, note: str) -> None:
        table = self._there()
        # pyiceberg would try again behind another driver's batch. What is said here is not stored.
        properties = {**table.metadata.properties, **NEVER_AGAIN}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        with table.transaction() as transaction:
            transaction.set_properties({NOTE: note})
            try:
                transaction.add_files(list(files), check_duplicate_files=False)
            except ValueError as error:
                raise ColumnsError(f"the batch does not go into {self.name}: {error}") from error
            require_rows(_figure(transaction.table_metadata, "added-records"), rows, self.location)

    def positions_of_rows(self) -> Offsets:
        """Return the next offset of each partition by the rows, where no note says it.

        Raises: DataLossError where they have no place.
        """
        table = self._there()
        require_place(table.schema().column_names, f"{self.name} does not say which offsets are in it")
        found: dict[TopicPartition, int] = {}
        for batch in table.scan(selected_fields=PLACE).to_arrow_batch_reader():
            by_partition = pa.Table.from_batches([batch]).group_by(["topic", "partition"])
            for each in by_partition.aggregate([("offset", "max")]).to_pylist():
                place = TopicPartition(each["topic"], each["partition"])
                found[place] = max(found.get(place, 0), each["offset_max"] + 1)
        return found

    def _there(self) -> Table:
        if self._table is None:
            raise IcebergLogError(f"{self.name} is not there any more: somebody has dropped it")
        return self._table


def _figure(metadata: TableMetadata, name: str) -> int:
    """Return a figure of the newest snapshot."""
    snapshot = metadata.current_snapshot()
    return 0 if snapshot is None or snapshot.summary is None else int(snapshot.summary.get(name) or 0)
