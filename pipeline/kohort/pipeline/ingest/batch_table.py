"""The interface between the sink and a table of any format: its owner, its positions, a new batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kohort.pipeline.errors import DataLossError, PipelineError
from kohort.pipeline.ingest.checkpoint import Offsets
from kohort.pipeline.offsets import TopicIds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE = ("topic", "partition", "offset")
"""The columns that say which record a row is."""


class TableTakenError(PipelineError):
    """Another driver has changed the table: two queries write to it, or this one was thought dead."""


class ColumnsError(PipelineError):
    """A batch whose columns do not go into the table."""


def require_place(columns: Iterable[str], problem: str) -> None:
    """Return if the rows of a table with these columns say where it ends, which nothing else does.

    Raises: DataLossError, which begins with the problem.
    """
    if not set(PLACE) <= set(columns):
        raise DataLossError(
            f"{problem}, and it has no columns {', '.join(PLACE)} that would: what is in it already cannot be"
            " told"
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query, and the next offset to read of each partition after it.

    `topic_ids` are of the topics that it was read from, as far as they are known.
    """

    query_id: str
    batch_id: int
    ends: Offsets
    topic_ids: TopicIds = field(default_factory=dict[str, str], compare=False)


class BatchTable(Protocol):
    """A table that is written batch by batch, in one thread."""

    @property
    def uri(self) -> str:
        """The table's name as Spark takes it."""
        ...

    @property
    def rows(self) -> int:
        """The rows in the table."""
        ...

    @property
    def batches(self) -> int:
        """How many batches are in the table."""
        ...

    def owner(self) -> str | None:
        """Return the id of the query that has put in the last batch, None of an empty table."""
        ...

    def topic_ids(self) -> TopicIds:
        """Return the ids of the topics whose records are in the table, as far as they are known."""
        ...

    def begin(self) -> None:
        """Become the writer; the batches of earlier writers are read again."""
        ...

    def has(self, batch: Batch) -> bool:
        """Return whether exactly this batch is in the table. Raises: TableTakenError, DataLossError."""
        ...

    def positions_before(self, batch: Batch) -> Offsets:
        """Return the next offset of each partition that is not in the table, without this batch and later
        ones.

        A topic that was created again has no offset before its first batch.
        """
        ...

    def put(self, frame: DataFrame, batch: Batch) -> int:
        """Put a batch's records into the table, all or none; return how many. Raises: PipelineError."""
        ...
