"""The note on a batch that a table of Delta Lake or Iceberg keeps: what tells whether the batch is there."""

from __future__ import annotations

import msgspec

from kohort.pipeline.ingest.batch_table import Batch, TableTakenError
from kohort.pipeline.ingest.checkpoint import Offsets
from kohort.pipeline.ingest.manifest import nested, partitions_of
from kohort.pipeline.offsets import TopicIds

WRITTEN_BY = "kohort"


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """The note on a batch.

    `positions` are the end offsets of the table with it; a query that reads data again does not move them
    back; `token` belongs to this one attempt to write; `batches` counts the batches in the table, including
    this one; `topic_ids` are the ids of the topics whose records are in it, as far as they are known.
    """

    written_by: str = WRITTEN_BY
    query_id: str
    batch_id: int
    ends: dict[str, dict[int, int]]
    positions: dict[str, dict[int, int]]
    batches: int
    token: str
    topic_ids: dict[str, str] = {}

    @property
    def batch(self) -> Batch:
        """The batch of this note."""
        return Batch(self.query_id, self.batch_id, partitions_of(self.ends))


def word_on(batch: Batch, before: Offsets, batches: int, token: str, known: TopicIds | None = None) -> str:
    """Return the note on a batch as JSON; the table ended at `before`, and had topics `known`."""
    positions = {**before}
    for partition, end in batch.ends.items():
        positions[partition] = max(end, positions.get(partition, end))
    return msgspec.json.encode(
        Word(
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            ends=nested(batch.ends),
            positions=nested(positions),
            batches=batches,
            token=token,
            topic_ids={**(known or {}), **batch.topic_ids},
        )
    ).decode()


def read_word(text: str | None) -> Word | None:
    """Return the note that a text is; None for a note of another program, and for none."""
    try:
        word = msgspec.json.decode(text or "", type=Word)
    except msgspec.DecodeError:
        return None
    return word if word.written_by == WRITTEN_BY else None


def taken(uri: str) -> TableTakenError:
    """Return the error of a driver that was slower than another one."""
    return TableTakenError(
        f"another driver has put a batch into {uri} meanwhile: two queries write to one table, or"
        " this driver was thought dead; it has put nothing in"
    )
