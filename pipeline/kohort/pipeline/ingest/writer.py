"""One driver's place in a table: which folders are its own, and whether a newer driver has taken over.

Each driver that begins to write takes a generation, the next number, and so fences those before it: they put
nothing into the manifest any more. A folder of files bears its driver's generation in its name, so that what
is left over is told from what a newer driver is just writing.
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
    """Return a name for a batch's files that nobody else has."""
    return f"generation-{generation:010d}-batch-{batch_id:020d}-{uuid.uuid4().hex[:12]}"


def generation_of(folder: str) -> int:
    """Return the generation of the driver that made a folder; 0 of those that had none yet."""
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
        """Be the driver of the table, unless this is it already; what was put in before is looked at anew."""
        if self._generation is None:
            self._generation = self.log.claim_generation()
            self.manifest = self.log.read()

    def new_folder(self, batch_id: int) -> str:
        """Return the name of a folder for a batch's files, relative to the table's."""
        return f"{DATA}/{folder_of(self._own(), batch_id)}"

    def put(self, entry: Entry) -> None:
        """Put a batch into the table, and once clear away what those before have left.

        Raises: ManifestError where another driver has changed the table, or taken it over.
        """
        self.manifest = self.log.append(self.manifest, entry, self._own())
        if not self._has_cleared:  # Not before: a driver thought dead may be about to put its files in.
            clear_leftovers(self.log, self.manifest, self._own())
            self._has_cleared = True

    def _own(self) -> int:
        assert self._generation is not None, "it has not begun"
        return self._generation


def clear_leftovers(log: ManifestLog, manifest: Manifest, generation: int) -> int:
    """Delete what this and former drivers have left behind that is not in the table; return how many folders.

    Called by whoever has just changed the manifest: a former driver's next change will be refused, so that
    what it has written is of no use any more. What a newer one writes is none of its business.
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
