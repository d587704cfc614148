"""The start offset of each leader epoch, as `leader-epoch-checkpoint` keeps it.

The file: `0`, the number of entries, then `epoch start_offset` a line.
Source: KIP-101; org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.
"""

from collections.abc import Iterable

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    """Entries (epoch, start offset), both growing."""

    __slots__ = ("entries", "is_changed")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.entries: tuple[tuple[int, int], ...] = tuple(entries)
        self.is_changed = False

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if there is none."""
        return self.entries[-1][0] if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` starts at `start_offset`, unless it or a newer one is known.

        Entries that start at or after the offset were empty, and are removed.
        """
        entries = self.entries
        if epoch < 0 or (entries and epoch <= entries[-1][0]):
            return
        kept = tuple(entry for entry in entries if entry[1] < start_offset)
        self.entries = (*kept, (epoch, start_offset))
        self.is_changed = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch not above `epoch`, and where it ends; (-1, -1) when unknown."""
        latest = self.latest
        if epoch < 0 or epoch > latest:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == latest:
            return epoch, log_end_offset
        floor = UNDEFINED_EPOCH
        for known, start_offset in self.entries:
            if known > epoch:
                return (epoch if floor == UNDEFINED_EPOCH else floor), start_offset
            floor = known
        raise AssertionError("the latest epoch is above the one asked for")

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that `offset` was, or will be, written in; -1 when unknown."""
        found = UNDEFINED_EPOCH
        for epoch, start_offset in self.entries:
            if start_offset > offset:
                break
            found = epoch
        return found

    def truncate_from(self, offset: int) -> None:
        """Remove the epochs that start at or after `offset`."""
        self._change(tuple(entry for entry in self.entries if entry[1] < offset))

    def delete_before(self, offset: int) -> None:
        """Remove the epochs that end at or before `offset`; the one that contains it then starts there."""
        behind = tuple(entry for entry in self.entries if entry[1] > offset)
        epoch = self.epoch_at(offset)
        self._change(behind if epoch == UNDEFINED_EPOCH else ((epoch, offset), *behind))

    def _change(self, entries: tuple[tuple[int, int], ...]) -> None:
        if entries != self.entries:
            self.entries = entries
            self.is_changed = True

    def encode(self) -> bytes:
        """Return the file's content."""
        lines = [f"{epoch} {start_offset}\n" for epoch, start_offset in self.entries]
        return f"0\n{len(lines)}\n{''.join(lines)}".encode()

    @classmethod
    def decode(cls, content: bytes | None) -> "LeaderEpochs | None":
        """Return the content of the file, None if it is missing or damaged: the log has it too."""
        # A file that was truncated within its last number has another number there.
        if content is None or not content.endswith(b"\n"):
            return None
        try:
            version, count, *lines = content.decode("ascii").split("\n")
            entries = [tuple(map(int, line.split(" "))) for line in lines if line]
        except ValueError:
            return None
        if version != "0" or count != str(len(entries)) or any(len(entry) != 2 for entry in entries):
            return None
        return cls((epoch, start_offset) for epoch, start_offset in entries)
