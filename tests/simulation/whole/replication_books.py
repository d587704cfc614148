"""What must hold of replicas in a cluster: one truth beside all brokers.

Brokers have threads and supervisors, which would catch what is raised in them. So the first violation is
kept, and the run is stopped from outside of them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kohort.broker.metadata.etcd_layout import PartitionValue
from kohort.broker.metadata.partition_state import NO_LEADER
from tests.simulation.whole.rules import Rules, Violation

Key = tuple[str, int]
"""A topic's id, and the index of a partition."""


class Lineage(NamedTuple):
    """The leader epochs of a log below its high watermark: logs with the same ones have the same records."""

    log_start_offset: int
    high_watermark: int
    epochs: Sequence[tuple[int, int]]
    """Each leader epoch, and where it starts."""

    @property
    def known_from(self) -> int:
        """The first offset whose leader epoch is known: a crash may lose where the first one starts."""
        return max(self.log_start_offset, self.epochs[0][1] if self.epochs else self.high_watermark)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of a record whose leader epoch is known."""
        return max(epoch for epoch, start in self.epochs if start <= offset)

    def differs_at(self, other: "Lineage") -> int | None:
        """Return the first offset that both have under different leader epochs; None where there is none."""
        first = max(self.known_from, other.known_from)
        end = min(self.high_watermark, other.high_watermark)
        starts = {first, *(start for _, start in (*self.epochs, *other.epochs))}
        shared = sorted(start for start in starts if first <= start < end)
        return next((each for each in shared if self.epoch_at(each) != other.epoch_at(each)), None)


class ReplicationBooks(Rules):
    """Rules of partitions in the metadata, of their leaders, and of what is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.violation: Violation | None = None
        """The first one."""
        self.on_violation: Callable[[str], object] = lambda words: None
        """Is told of the first one."""
        self._committed: dict[Key, Lineage] = {}
        self._leaders: dict[tuple[Key, int], tuple[int, int]] = {}
        self._lax: set[Key] = set()
        self._is_restored = False

    def expect(self, rule: str, holds: bool, found: Callable[[], object]) -> None:
        """Count the rule, and keep a violation."""
        try:
            self.hold(rule, holds, None if holds else found())
        except Violation as error:
            if self.violation is None:
                self.violation = error
                self.on_violation(str(error))

    def restored(self) -> None:
        """See that etcd goes back to a backup: what it has forgotten may happen again, and otherwise."""
        self._is_restored = True

    # -- the metadata -------------------------------------------------------------------------------------

    def changed(self, key: Key, before: PartitionValue, after: PartitionValue) -> None:
        """See a change of a partition that etcd has taken."""

        def expect(rule: str, holds: bool) -> None:
            self.expect(rule, holds, lambda: f"{key}: {before} became {after}")

        expect(
            "epochs of a partition only grow",
            after.leader_epoch >= before.leader_epoch and after.partition_epoch == before.partition_epoch + 1,
        )
        expect(
            "another leader has another leader epoch",
            after.leader == before.leader or after.leader_epoch > before.leader_epoch,
        )
        expect("a leader is in sync", after.leader in {NO_LEADER, *after.isr})
        expect(
            "replicas have their directories",
            len(after.directories) == len(after.replicas)
            and set(after.isr + after.elr) <= set(after.replicas),
        )
        others = _changed_folders(before, after)
        had_all = {*before.isr, *before.elr}
        expect(
            "who may have lost something stays only where nobody else has everything",
            not (others & had_all & {*after.isr, *after.elr}) or not had_all - others,
        )
        expect(
            "nobody leads uncleanly where the topic forbids it",
            after.leader in {NO_LEADER, before.leader, *had_all},
        )

    def joins(self, key: Key, node_id: int, synced_offset: int) -> None:
        """See a broker that runs become in sync, and so become one of those who may lead."""
        known = self._committed.get(key)
        self.expect(
            "who joins the in-sync replicas has all that is committed",
            known is None or self._is_restored or key in self._lax or synced_offset >= known.high_watermark,
            lambda: f"{key}: broker {node_id} has {synced_offset} of {known}",
        )

    # -- what brokers do ----------------------------------------------------------------------------------

    def leads(self, key: Key, leader_epoch: int, life: tuple[int, int]) -> None:
        """See a broker begin to lead: its node id, and which of its lives it is."""
        if self._is_restored:
            return
        known = self._leaders.setdefault((key, leader_epoch), life)
        self.expect(
            "one leader per leader epoch", known == life, lambda: f"{key}, {leader_epoch}: {known} and {life}"
        )

    def is_lax(self, key: Key) -> None:
        """See a partition whose records need not be on a disk: what is committed may be lost with power."""
        self._lax.add(key)

    def advances(self, before: int, after: int, in_sync: int, enough: int) -> None:
        """See a leader commit with so many in sync."""
        self.expect("a leader's high watermark only grows", after > before, lambda: f"{before}, {after}")
        self.expect(
            "nothing is committed by too few in sync", in_sync >= enough, lambda: f"{in_sync} of {enough}"
        )

    def shows(self, key: Key, own: Lineage, end_offset: int) -> None:
        """See a leader or a follower take what lies below its high watermark for committed."""
        self.expect(
            "what is committed is in the log",
            own.high_watermark <= end_offset,
            lambda: f"{key}: {own} ends at {end_offset}",
        )
        if self._is_restored or key in self._lax:
            return
        known = self._committed.get(key)
        differs_at = None if known is None else own.differs_at(known)
        self.expect(
            "logs agree below the high watermark",
            differs_at is None,
            lambda: f"{key} at {differs_at}: {own} where {known} was committed",
        )
        if known is None or own.high_watermark > known.high_watermark:
            self._committed[key] = own

    def commits(self, key: Key, high_watermark: int, synced: dict[int, int]) -> None:
        """See a leader commit, and where the synced ends of those in sync are that run."""
        if key not in self._lax:
            self.expect(
                "what is committed is on the disk of all who are in sync",
                all(each >= high_watermark for each in synced.values()),
                lambda: f"{key}, {high_watermark}: {synced}",
            )


def _changed_folders(before: PartitionValue, after: PartitionValue) -> set[int]:
    """Return the replicas whose folder is another than before."""
    known = dict(zip(before.replicas, before.directories, strict=False))
    now = zip(after.replicas, after.directories, strict=False)
    return {each for each, directory in now if known.get(each, directory) != directory}
