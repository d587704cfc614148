"""Transactions that stay open: the last stable offset of a partition stands, and its log grows. Pure."""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

import msgspec

from kohort.broker.explain.observed.events import TransactionHolder, TransactionStands
from kohort.client.admin_values import OpenTransaction

STANDS_MS = 120_000
"""A last stable offset that has stood for so long holds up who reads committed records alone."""
HOLDERS_TOLD = 4
Ends = Mapping[str, Mapping[int, int]]


class Standing(NamedTuple):
    """A partition whose last stable offset was the same since `since_ms`, before the end of its log."""

    topic: str
    partition: int
    last_stable_offset: int
    end_offset: int
    since_ms: int


class SavedTransactions(msgspec.Struct, array_like=True, frozen=True):
    """What is stored: the partitions that stand, and those of them that were told."""

    standing: list[Standing]
    told: list[tuple[str, int, int]]


NONE_SAVED = SavedTransactions([], [])


class Opened(NamedTuple):
    """The open transactions. `is_whole`: every coordinator was asked, and none of them moved meanwhile."""

    transactions: tuple[OpenTransaction, ...]
    is_whole: bool


def standing_event(
    standing: Standing, opened: Opened | None, timeout_ms_max: int, at_ms: int
) -> TransactionStands:
    """Return the event of a last stable offset that does not move, with the transactions that hold it."""
    where = standing.topic, standing.partition
    holders = [
        TransactionHolder(each.transactional_id, each.started_ms, each.timeout_ms, each.state)
        for each in sorted(opened.transactions if opened else (), key=lambda each: each.started_ms)
        if where in each.partitions
    ]
    return TransactionStands(
        at_ms=at_ms,
        since_ms=standing.since_ms,
        topic=standing.topic,
        partition=standing.partition,
        last_stable_offset=standing.last_stable_offset,
        end_offset=standing.end_offset,
        timeout_ms_max=timeout_ms_max,
        holders=tuple(holders[:HOLDERS_TOLD]),
        is_without_holder=opened is not None and opened.is_whole and not holders,
    )


class OpenTransactions:
    """Follows the last stable offset of partitions, look by look."""

    def __init__(self, saved: SavedTransactions = NONE_SAVED) -> None:
        self._known: dict[tuple[str, int], Standing] = {each[:2]: each for each in saved.standing}
        self._told: set[tuple[str, int, int]] = {*saved.told}

    def saved(self) -> SavedTransactions:
        """Return what is stored, so that a restart neither forgets nor tells again what stands."""
        return SavedTransactions([*self._known.values()], [*self._told])

    @property
    def standing(self) -> tuple[Standing, ...]:
        """The partitions whose last stable offset is before the end of the log."""
        return tuple(self._known.values())

    def look(self, stable: Ends, ends: Ends, now_ms: int) -> list[Standing]:
        """Take the last stable offsets and the ends; return the partitions that have now stood for long.

        Partitions that `tell` was given are left out. A partition keeps its state while one of its offsets is
        unknown.
        """
        for topic, partitions in stable.items():
            for partition, offset in partitions.items():
                end = ends.get(topic, {}).get(partition)
                if end is None:
                    continue
                where = topic, partition
                before = self._known.pop(where, None)
                if offset < end:
                    is_same = before is not None and before.last_stable_offset == offset
                    since_ms = before.since_ms if before is not None and is_same else now_ms
                    self._known[where] = Standing(topic, partition, offset, end, since_ms)
        long = [each for each in self._known.values() if now_ms - each.since_ms >= STANDS_MS]
        self._told &= {each[:3] for each in long}
        return [each for each in long if each[:3] not in self._told]

    def tell(self, standing: Iterable[Standing]) -> None:
        """Note that these are told."""
        self._told |= {each[:3] for each in standing}

    def keep_only(self, partitions: Container[tuple[str, int]]) -> None:
        """Forget all other partitions: no group reads them any more."""
        for where in [each for each in self._known if each not in partitions]:
            del self._known[where]

    def forget(self, topics: Container[str]) -> None:
        """Forget these topics: they are gone, or were made anew."""
        for where in [each for each in self._known if each[0] in topics]:
            del self._known[where]
