"""Whether a data folder has all records of its last process, as far as a start can know.

Acknowledged records are on the disk if every write is synced before it is answered, and in the machine's
memory otherwise: a killed process loses neither. Source: KIP-966, which asks for a clean stop
of the last broker epoch, as Kafka does not sync.
"""

from typing import NamedTuple


class Found(NamedTuple):
    """What a start finds that confirms its folder, or not."""

    was_stopped: bool
    """The last process closed every log, synced, and said so."""
    is_last_life: bool
    """The last process registered with this node id had this folder, not a copy of it."""
    is_same_boot: bool
    """The machine has run since: written and unsynced data is still there."""
    is_synced: bool
    """Every partition that others replicate is synced before anything is acknowledged."""
    is_short: bool
    """A log ends before its noted synced end."""


def has_all(found: Found) -> bool:
    """Return whether the folder has everything that was acknowledged from it."""
    if found.is_short or not found.is_last_life:
        return False
    return found.was_stopped or found.is_synced or found.is_same_boot
