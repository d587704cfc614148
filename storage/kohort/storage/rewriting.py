"""Writes batches again at their positions.

After a failed sync the page cache shows bytes that the disk does not hold, and no later sync writes them:
only a write makes them count as changed again.
"""

from collections.abc import Sequence

from kohort.protocol.records import read_header
from kohort.storage.operating_system import Buffer
from kohort.storage.segment import Segment


def write_again(segments: Sequence[Segment], written_offset: int, batches: Sequence[Buffer]) -> None:
    """Write the batches that the log still has at these positions again, and sync them.

    Positions with other content are not changed. Raises: OSError, StorageError.
    """
    touched = dict.fromkeys(_write_again(segments, written_offset, batch) for batch in batches)
    for segment in touched:
        if segment is not None:
            segment.file.sync()


def _write_again(segments: Sequence[Segment], written_offset: int, batch: Buffer) -> Segment | None:
    """Return the segment in which the batch was overwritten, None if it has no such batch."""
    offset = read_header(batch).base_offset
    holding = [segment for segment in segments if segment.base_offset <= offset]
    if not holding or offset >= written_offset:
        return None
    segment = holding[-1]
    position = segment.position_of(offset, segment.size_bytes)
    if segment.file.read_at(len(batch), position) != bytes(batch):
        return None
    segment.file.write_at([batch], position)
    return segment
