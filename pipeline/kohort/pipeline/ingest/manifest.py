"""Which files are in an ingested table: the list that makes them appear, all of a batch or none.

A folder `_manifest` holds numbered changes, each a file that is made in one step and never replaced: an
entry for one batch, and the batch from which entries of the same query are removed. The list is the sum of
the changes. Two writers cannot make the same number, so that a driver that was believed dead and still
writes finds out. After every fiftieth change the whole list is written, so that nobody reads all changes;
unneeded changes are deleted, and a driver that returns cannot use their numbers.

Each driver also makes a file with its generation, the next number: older generations may change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from kohort.client import TopicPartition
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.ingest.checkpoint import Offsets
from kohort.pipeline.ingest.folder import Folder
from kohort.pipeline.offsets import made_anew

MANIFEST, DATA = "_manifest", "data"
CHANGE, WHOLE, GENERATION = ".json", ".whole.json", ".generation"
DIGITS = 20
CHANGES_PER_WHOLE = 50
WHOLE_KEPT = 2  # A reader that listed the folder a moment ago still finds its files.
READ_ATTEMPTS = 5

Kind = TypeVar("Kind", "Change", "Whole")


class ManifestError(PipelineError):
    """A manifest that is damaged, or that another writer has changed meanwhile."""


class Entry(msgspec.Struct, frozen=True):
    """A batch that is in the table: its files, and the next offset to read of each topic's partitions."""

    query_id: str
    batch_id: int
    files: tuple[str, ...]
    rows: int
    ends: dict[str, dict[int, int]]
    columns: str
    """The schema as Spark's JSON."""
    topic_ids: dict[str, str] = {}
    """Of the topics that it was read from, as far as they are known."""

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """`ends` by partition."""
        return partitions_of(self.ends)


class Change(msgspec.Struct, frozen=True):
    """One step of the list: entries of the query from batch `takes_back_from` on are removed, this one is
    added."""

    entry: Entry
    takes_back_from: int | None = None


class Whole(msgspec.Struct, frozen=True):
    """The list after a change."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The current list; `version` is the number of the last change, -1 without one."""

    entries: tuple[Entry, ...] = ()
    version: int = -1

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset of each partition that is not in the table.

        Spark writes down all partitions of a source with each batch: a query's last entry has them all.
        """
        last = {entry.query_id: entry for entry in self.entries}
        newest = self.topic_ids()
        found: dict[TopicPartition, int] = {}
        for entry in last.values():
            renewed = made_anew(entry.topic_ids, newest)
            for partition, offset in entry.offsets.items():
                if partition.topic not in renewed:
                    found[partition] = max(offset, found.get(partition, offset))
        return found

    def topic_ids(self) -> dict[str, str]:
        """Return the ids of the topics as the last batch of each knew them."""
        found: dict[str, str] = {}
        for entry in self.entries:
            found |= entry.topic_ids
        return found

    def of(self, query_id: str, batch_id: int) -> Entry | None:
        """Return a batch's entry, None where it is not in the table."""
        of_query = (each for each in reversed(self.entries) if each.query_id == query_id)
        return next((each for each in of_query if each.batch_id == batch_id), None)

    def change_for(self, entry: Entry) -> Change:
        """Return the change that puts a batch into the table, in the place of its former self."""
        is_new = all(
            each.query_id != entry.query_id or each.batch_id < entry.batch_id for each in self.entries
        )
        return Change(entry, None if is_new else entry.batch_id)

    def after(self, change: Change) -> Manifest:
        """Return the list after the next change."""
        kept = self.entries
        if change.takes_back_from is not None:
            kept = tuple(
                each
                for each in kept
                if each.query_id != change.entry.query_id or each.batch_id < change.takes_back_from
            )
        return Manifest((*kept, change.entry), self.version + 1)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of all entries, relative to the table's folder."""
        return tuple(file for entry in self.entries for file in entry.files)

    @property
    def rows(self) -> int:
        """The rows of all entries."""
        return sum(each.rows for each in self.entries)


def nested(offsets: Offsets) -> dict[str, dict[int, int]]:
    """Return offsets as an entry holds them."""
    found: dict[str, dict[int, int]] = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[partition.partition] = offsets[partition]
    return found


def partitions_of(ends: dict[str, dict[int, int]]) -> dict[TopicPartition, int]:
    """Return what `nested` has made of offsets as they were."""
    return {
        TopicPartition(topic, partition): offset
        for topic, partitions in ends.items()
        for partition, offset in partitions.items()
    }


@dataclass(slots=True)
class ManifestLog:
    """The manifest in its folder."""

    table: Folder
    folder: Folder = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.table.child(MANIFEST)

    def read(self) -> Manifest:
        """Return the list as of now. Raises: ManifestError."""
        for _ in range(READ_ATTEMPTS):
            try:
                return self._read()
            except FileNotFoundError:  # The listed file was deleted meanwhile: there is a newer one.
                continue
        raise ManifestError(f"{self.folder.uri} changes faster than it can be read, or files are missing")

    def _read(self) -> Manifest:
        changes, wholes = _numbers(self.folder.names())
        manifest = Manifest()
        if wholes:
            newest = max(wholes)
            manifest = Manifest(self._decode(_name(newest, WHOLE), Whole).entries, newest)
        later = sorted(each for each in changes if each > manifest.version)
        if later and later != list(range(manifest.version + 1, later[-1] + 1)):
            raise FileNotFoundError(self.folder.uri)
        for number in later:
            manifest = manifest.after(self._decode(_name(number, CHANGE), Change))
        return manifest

    def claim_generation(self) -> int:
        """Return a generation that is newer than all others: drivers of older generations are fenced."""
        while True:
            former = _generations(self.folder.names())
            generation = max(former, default=0) + 1
            try:
                self.folder.create(_name(generation, GENERATION), "")
            except FileExistsError:  # Another driver begins at the same time.
                continue
            for each in former:
                self.folder.delete(_name(each, GENERATION))
            return generation

    def append(self, manifest: Manifest, entry: Entry, generation: int | None = None) -> Manifest:
        """Put a batch into the table; return the new list.

        Raises: ManifestError where another writer has changed the list meanwhile, or where a driver of a
        newer generation has begun.
        """
        change = manifest.change_for(entry)
        after = manifest.after(change)
        self._refuse_stale(manifest.version, generation)
        name = _name(after.version, CHANGE)
        try:
            self.folder.create(name, msgspec.json.encode(change).decode())
        except FileExistsError:
            raise self._another_writer(after.version) from None
        try:
            self._refuse_stale(after.version, None)
        except ManifestError:  # The number was free again after a deletion: no reader looks at it.
            self.folder.delete(name)
            raise
        if after.version % CHANGES_PER_WHOLE == CHANGES_PER_WHOLE - 1:
            self._write_whole(after)
        return after

    def _refuse_stale(self, version: int, generation: int | None) -> None:
        """Return if nothing is newer than this. The newest change, or the list after it, is always there."""
        names = self.folder.names()
        changes, wholes = _numbers(names)
        newest = max(changes | wholes, default=-1)
        if generation is not None and max(_generations(names), default=0) > generation:
            raise ManifestError(
                f"a newer driver writes to {self.table.uri}: this one was thought dead, or two queries write"
                " to one table; it changes nothing any more"
            )
        if newest > version:
            raise self._another_writer(newest)

    def _another_writer(self, number: int) -> ManifestError:
        return ManifestError(
            f"another writer has put change {number} into {self.folder.uri}: two queries write to one table,"
            " or a driver that was thought dead still runs"
        )

    def _write_whole(self, manifest: Manifest) -> None:
        try:
            self.folder.create(
                _name(manifest.version, WHOLE), msgspec.json.encode(Whole(manifest.entries)).decode()
            )
        except FileExistsError:
            return
        changes, wholes = _numbers(self.folder.names())
        oldest = sorted(wholes)[-WHOLE_KEPT:][0]
        for number in wholes:
            if number < oldest:
                self.folder.delete(_name(number, WHOLE))
        if len(wholes) >= WHOLE_KEPT:
            for number in changes:
                if number <= oldest:
                    self.folder.delete(_name(number, CHANGE))

    def _decode(self, name: str, kind: type[Kind]) -> Kind:
        text = self.folder.read(name)
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.DecodeError as error:
            raise ManifestError(f"{self.folder.uri}/{name} is damaged: {error}") from None


def _name(number: int, ending: str) -> str:
    return f"{number:0{DIGITS}}{ending}"


def _numbers(names: set[str]) -> tuple[set[int], set[int]]:
    """Return the numbers of the changes, and the numbers after which the whole list is written."""
    wholes = {int(name[:DIGITS]) for name in names if name.endswith(WHOLE) and name[:DIGITS].isdigit()}
    changes = {
        int(name[:DIGITS])
        for name in names
        if name.endswith(CHANGE) and not name.endswith(WHOLE) and name[:DIGITS].isdigit()
    }
    return changes, wholes


def _generations(names: set[str]) -> set[int]:
    """Return the generations of which there is a file."""
    return {int(name[:DIGITS]) for name in names if name.endswith(GENERATION) and name[:DIGITS].isdigit()}
