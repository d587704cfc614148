"""What tables of Delta Lake and Iceberg share: the note on the newest batch says what is in the table."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kohort.pipeline.ingest.batch_table import Batch, TableTakenError
from kohort.pipeline.ingest.checkpoint import Offsets
from kohort.pipeline.ingest.manifest import partitions_of
from kohort.pipeline.ingest.word import Word, word_on
from kohort.pipeline.offsets import TopicIds, made_anew


class NotedTable(ABC):
    """A table whose newest batch has a note."""

    @property
    @abstractmethod
    def uri(self) -> str:
        """The table's name."""

    @property
    @abstractmethod
    def last_word(self) -> Word | None:
        """The note on the newest batch, None where there is none."""

    @abstractmethod
    def positions_of_rows(self) -> Offsets:
        """Return the next offset of each partition by the rows. Raises: DataLossError."""

    @property
    def batches(self) -> int:
        """How many batches were put into the table."""
        return 0 if self.last_word is None else self.last_word.batches

    def owner(self) -> str | None:
        """Return the id of the query that wrote the last batch, None where no note says it."""
        return None if self.last_word is None else self.last_word.query_id

    def topic_ids(self) -> TopicIds:
        """Return the ids of the topics whose records are in the table, as far as they are known."""
        return {} if self.last_word is None else self.last_word.topic_ids

    def has(self, batch: Batch) -> bool:
        """Return whether exactly this batch is in the table. It is the last one, or not in it.

        Raises: TableTakenError where the table is further than the checkpoint, or is another query's by now.
        """
        last = self.last_word
        if last is None or last.query_id != batch.query_id:
            return False
        former = last.batch
        if former == batch:
            return True
        if former.batch_id < batch.batch_id:
            return False
        raise TableTakenError(
            f"{self.uri} has the query's batch {former.batch_id} already, and the checkpoint runs batch"
            f" {batch.batch_id}: another driver goes on with a checkpoint of the same query, or this"
            " checkpoint is an older one that was put back. With a new checkpoint and --resume (resume=True)"
            " it goes on where the table ends"
        )

    def positions_before(self, batch: Batch) -> Offsets:
        """Return the next offset of each partition that is not in the table.

        Where no note says it, the rows are searched.
        """
        last = self.last_word
        if last is None:
            return self.positions_of_rows()
        renewed = made_anew(last.topic_ids, batch.topic_ids)
        positions = partitions_of(last.positions)
        return {each: offset for each, offset in positions.items() if each.topic not in renewed}

    def note_on(self, batch: Batch, token: str) -> str:
        """Return the note on the next batch of the table."""
        return word_on(batch, self.positions_before(batch), self.batches + 1, token, self.topic_ids())
