"""The stored state of one share partition: its start offset, and the states of later records."""

from base64 import urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from kohort.broker.group.share.record import FINAL
from kohort.protocol.share_state_log import ShareSnapshotValue, ShareStateBatch, ShareUpdateValue

UNKNOWN_OFFSET = -1
"""The start of a share partition whose leader has yet to choose one."""


UNKNOWN_COUNT = -1
"""Of the records behind the start that are done with."""
NO_EPOCH = -1
TRIES = 4_096
"""A state epoch is the number of the share partition's initialization times this, plus that of a write
retry."""
STATE_EPOCH_MAX = 2**31 - 1


def next_life(state_epoch: int) -> int:
    """Return the first state epoch of the next initialization: it fences earlier requests."""
    return min((state_epoch // TRIES + 1) * TRIES, STATE_EPOCH_MAX)


def next_try(state_epoch: int) -> int:
    """Return the state epoch that fences earlier writes of this initialization; the last is used again."""
    return min(state_epoch + 1, state_epoch // TRIES * TRIES + TRIES - 1)


class ShareKey(NamedTuple):
    """A share partition: one partition in one share group."""

    group_id: str
    topic_id: UUID
    partition: int

    @property
    def text(self) -> str:
        """Its name for the coordinator lookup, as Kafka writes it (SharePartitionKey)."""
        topic_id = urlsafe_b64encode(self.topic_id.bytes).rstrip(b"=").decode()
        return f"{self.group_id}:{topic_id}:{self.partition}"


class ShareState:
    """One share partition's state; `take` and `update` alone change it.

    Batches lie in the order of offsets, none over another; what touches and is alike is one.
    """

    __slots__ = (
        "batches",
        "created_ms",
        "delivery_complete_count",
        "leader_epoch",
        "snapshot_epoch",
        "start_offset",
        "state_epoch",
        "updates",
    )

    def __init__(self, snapshot: ShareSnapshotValue) -> None:
        self.snapshot_epoch = snapshot.snapshot_epoch
        self.state_epoch = snapshot.state_epoch
        self.leader_epoch = snapshot.leader_epoch
        self.start_offset = snapshot.start_offset
        self.delivery_complete_count = snapshot.delivery_complete_count
        self.created_ms = snapshot.create_timestamp
        self.batches: list[ShareStateBatch] = []
        self.updates = 0
        """How many were logged since the snapshot."""
        self._overlay(snapshot.state_batches)

    def update(self, value: ShareUpdateValue) -> None:
        """Apply the changes."""
        self.updates += 1
        self.leader_epoch = max(self.leader_epoch, value.leader_epoch)
        if value.start_offset != UNKNOWN_OFFSET:
            self.start_offset = max(self.start_offset, value.start_offset)
        self.delivery_complete_count = value.delivery_complete_count
        self._overlay(value.state_batches)

    def snapshot(self, now_ms: int, epoch: int) -> ShareSnapshotValue:
        """Return all of it as the snapshot of an epoch."""
        return ShareSnapshotValue(
            snapshot_epoch=epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.created_ms,
            write_timestamp=now_ms,
            state_batches=tuple(self.batches),
        )

    def progress(self) -> tuple[int, int]:
        """Return the first offset that is not done with, and how many records behind it are.

        A write has the former start of the share partition: records that it adds at the front are completed,
        too.
        """
        start, done_count = self.start_offset, self.delivery_complete_count
        for each in self.batches:
            if each.first_offset != start or each.delivery_state not in FINAL:
                break
            done_count = max(done_count - (each.last_offset + 1 - start), 0) if done_count > 0 else done_count
            start = each.last_offset + 1
        return start, done_count

    def _overlay(self, news: Iterable[ShareStateBatch]) -> None:
        for each in news:
            overlay(self.batches, each)
        drop_before(self.batches, self.start_offset)


def overlay(batches: list[ShareStateBatch], new: ShareStateBatch) -> None:
    """Apply `new` to its offsets, over earlier batches."""
    low = bisect_left(batches, new.first_offset, key=_last_offset)
    high = low
    pieces = [new]
    while high < len(batches) and batches[high].first_offset <= new.last_offset:
        old = batches[high]
        if old.first_offset < new.first_offset:
            pieces.insert(0, _part(old, old.first_offset, new.first_offset - 1))
        if old.last_offset > new.last_offset:
            pieces.append(_part(old, new.last_offset + 1, old.last_offset))
        high += 1
    if low > 0:
        low -= 1
        pieces.insert(0, batches[low])
    if high < len(batches):
        pieces.append(batches[high])
        high += 1
    batches[low:high] = _joined(pieces)


def drop_before(batches: list[ShareStateBatch], offset: int) -> None:
    """Remove batches before an offset."""
    count = bisect_left(batches, offset, key=_last_offset)
    del batches[:count]
    if batches and batches[0].first_offset < offset:
        batches[0] = _part(batches[0], offset, batches[0].last_offset)


def _joined(pieces: Sequence[ShareStateBatch]) -> list[ShareStateBatch]:
    joined = [pieces[0]]
    for each in pieces[1:]:
        last = joined[-1]
        if last.last_offset + 1 == each.first_offset and (last.delivery_state, last.delivery_count) == (
            each.delivery_state,
            each.delivery_count,
        ):
            joined[-1] = _part(last, last.first_offset, each.last_offset)
        else:
            joined.append(each)
    return joined


def _part(batch: ShareStateBatch, first_offset: int, last_offset: int) -> ShareStateBatch:
    """Return the part of the batch with these offsets."""
    return ShareStateBatch(
        first_offset=first_offset,
        last_offset=last_offset,
        delivery_state=batch.delivery_state,
        delivery_count=batch.delivery_count,
    )


def _last_offset(batch: ShareStateBatch) -> int:
    return batch.last_offset
