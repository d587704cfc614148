"""The batches of a range of offsets, from any origin."""

from dataclasses import dataclass

import numpy as np

from kohort.client.batch_table import BatchTable


@dataclass(frozen=True, slots=True)
class Extent:
    """The batches of a range of offsets, and the offset after them."""

    batches: BatchTable
    next_offset: int


def extent(batches: BatchTable, position: int, end: int) -> Extent:
    """Return which of these batches belong to the offsets from `position` up to `end`."""
    behind = np.flatnonzero(batches.base_offsets >= end)
    if len(behind):
        return Extent(batches[: behind[0]], end)
    return Extent(batches, max(position, int(batches.next_offsets.max())) if len(batches) else position)
