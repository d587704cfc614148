"""One driver's place in a table: which folders are its own, and whether a newer driver has taken over.

Each driver that begins to write takes a generation, the next number, and so fences earlier drivers: those
cannot change the manifest any more. The name of a data folder has the generation of its driver, so that
leftovers differ from the files that a newer driver is writing.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field

from kohort.pipeline.errors import DataLossError
from kohort.pipeline.ingest.manifest import DATA, Entry, Manifest, ManifestLog

BEFORE_GENERATIONS = 0
_FOLDER = re.compile(r"generation-(\d+)-batch-\d+-")


def folder_of(generation: int, batch_id: int) -> str:
    """Return a unique name for the files of a batch."""
    return f"generation-{generation:010d}-batch-{batch_id:020d}-{uuid.uuid4().hex[:12]}"


def generation_of(folder: str) -> int:
    """Return the generation of the driver that made a folder; 0 for older folders without one."""
    found = _FOLDER.match(folder)
    return int(found[1]) if found else BEFORE_GENERATIONS


@dataclass(slots=True)
class TableWriter:
    """Puts batches into a table's manifest, in one thread."""

    log: ManifestLog
    manifest: Manifest = field(init=False)
    _generation: int | None = None
    _has_cleared: bool = False

    def __post_init__(self) -> None:
        self.manifest = self.log.read()

    def begin(self) -> None:
        """Become the driver of the table, unless it already is; the earlier batches are read again."""
        if self._generation is None:
            self._generation = self.log.claim_generation()
            self.manifest = self.log.read()

    def new_folder(self, batch_id: int) -> str:
        """Return the name of a folder for a batch's files, relative to the table's."""
        return f"{DATA}/{folder_of(self._own(), batch_id)}"

    def put(self, entry: Entry) -> None:
        """Add a batch to the table, and once delete the leftovers of earlier drivers.

        Raises: ManifestError where another driver has changed the table, or taken it over.
        """
        self.manifest = self.log.append(self.manifest, entry, self._own())
        # Not earlier: a driver that was believed dead may be about to add its files.
        if not self._has_cleared:
            clear_leftovers(self.log, self.manifest, self._own())
            self._has_cleared = True

    def _own(self) -> int:
        assert self._generation is not None, "it has not begun"
        return self._generation


def clear_leftovers(log: ManifestLog, manifest: Manifest, generation: int) -> int:
    """Delete the leftovers of this and earlier drivers that are not in the table; return how many folders.

    Called after a change of the manifest: the next change of an earlier driver will be refused, so that
    its files are not needed any more. The files of a newer driver are not touched.
    """
    data = log.table.child(DATA)
    wanted = {file.split("/")[1] for file in manifest.files}
    leftovers = {each for each in data.names() - wanted if generation_of(each) <= generation}
    for name in leftovers:
        data.delete(name)
    return len(leftovers)


def require_rows(found: int, rows: int, folder: str) -> None:
    """Return if all rows that were written are in files that can be seen here. Raises: DataLossError."""
    if found != rows:
        raise DataLossError(
            f"{rows:,} rows were written to {folder}, and the driver sees {found:,} there: the table has"
            " to lie in a folder that the driver and all executors share"
        )
