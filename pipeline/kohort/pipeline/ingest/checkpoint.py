"""What a Spark checkpoint says about offsets: which batches are done, and their end offsets.

A checkpoint has a file `offsets/N` per batch, written before the batch runs, and `commits/N`, written after
its sink has returned; `metadata` has the query's id. A file of offsets begins with the line `v1` or `v2`,
then follows a line of JSON about the batch, then a line per source, which `v2` prefixes with the source's
name.
A source over Kafka's protocol writes {"topic": {"0": 17}}: the next offset to read of each partition.
Source: org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog and CommitLog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from kohort.client import TopicPartition
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.ingest.folder import Folder
from kohort.pipeline.offsets import STARTS, without_notes

Offsets = Mapping[TopicPartition, int]

OFFSETS, COMMITS, METADATA, INITIAL = "offsets", "commits", "metadata", "sources"
NO_OFFSET = "-"
VERSIONS = ("v1", "v2")
COMMIT_VERSIONS = ("v1", "v2", "v3")


class CheckpointError(PipelineError):
    """A checkpoint that cannot be read: damaged, of another Spark, or not of a topic."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far Spark is: its newest batch that is committed, and the next offset to read per partition."""

    batch_id: int
    offsets: Offsets


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Return the next offset to read of each partition, of all sources over topics together.

    A partition that two sources read counts as far as the slower is. Raises: CheckpointError.
    """
    version, _, rest = text.partition("\n")
    if version not in VERSIONS:
        raise CheckpointError(f"a file of offsets of version {version!r}: only {VERSIONS} are known")
    lines = rest.splitlines()[1:]
    found: dict[TopicPartition, int] = {}
    for line in lines:
        source = line.partition(":")[2] if version == "v2" else line
        for partition, offset in _source_offsets(source).items():
            found[partition] = min(offset, found.get(partition, offset))
    return found


def _source_offsets(text: str) -> dict[TopicPartition, int]:
    """Return a source's offsets, none where it is not one over topics."""
    if text == NO_OFFSET:
        return {}
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise CheckpointError(f"the offsets {text[:80]!r} are no JSON: {error}") from None
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        return {}
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in without_notes(value).items()
            for partition, offset in partitions.items()
        }
    except (TypeError, ValueError):
        return {}


class Checkpoint:
    """A query's checkpoint folder, read and never written."""

    def __init__(self, folder: Folder) -> None:
        self.uri = folder.uri
        self._folder = folder
        self._offsets = folder.child(OFFSETS)
        self._commits = folder.child(COMMITS)

    def query_id(self) -> str | None:
        """Return the query's id, which outlives restarts, None before the first. Raises: CheckpointError."""
        try:
            text = self._folder.read(METADATA)
        except FileNotFoundError:
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(f"{self.uri}/{METADATA} does not say the query's id") from None

    def is_committed(self, batch_id: int) -> bool:
        """Return whether Spark has committed the batch: it will not run again."""
        return self._commits.exists(str(batch_id))

    def progress(self) -> Progress | None:
        """Return the newest batch that is committed, None before the first. Raises: CheckpointError."""
        numbers = [int(name) for name in self._commits.names() if name.isdigit()]
        if not numbers:
            return None
        newest = max(numbers)
        version = self._commits.read(str(newest)).partition("\n")[0]
        if version not in COMMIT_VERSIONS:
            raise CheckpointError(f"{self.uri}/{COMMITS}/{newest} is of version {version!r}")
        return Progress(newest, self.ends_of(newest))

    def ends_of(self, batch_id: int) -> dict[TopicPartition, int]:
        """Return the end offsets of a batch, which may still run. Raises: CheckpointError."""
        try:
            return parse_offsets(self._offsets.read(str(batch_id)))
        except FileNotFoundError:
            raise CheckpointError(f"{self.uri}/{OFFSETS}/{batch_id} is missing") from None

    def starts_of(self, batch_id: int) -> dict[TopicPartition, int]:
        """Return the start offsets of a batch, as far as the checkpoint has them. Raises: CheckpointError.

        Of the first batch that is known only where the source has written it down, as Spark's own does.
        """
        if batch_id > 0:
            return self.ends_of(batch_id - 1)
        found = self._noted_starts()
        sources = self._folder.child(INITIAL)
        for number in sources.names():
            try:
                text = sources.child(number).read("0")
            except (FileNotFoundError, NotADirectoryError):
                continue
            found |= _source_offsets(text.replace("\0", "").partition("\n")[2] or NO_OFFSET)
        return found

    def _noted_starts(self) -> dict[TopicPartition, int]:
        """Return the start offsets of the `format("kohort")` streams: their first batch records them."""
        try:
            lines = self._offsets.read("0").splitlines()[2:]
        except FileNotFoundError:
            return {}
        found: dict[TopicPartition, int] = {}
        for line in lines:
            _, note, rest = line.partition(f'"{STARTS}":')
            if note:
                starts, _ = json.JSONDecoder().raw_decode(rest.lstrip())
                found |= _source_offsets(json.dumps(starts))
        return found
