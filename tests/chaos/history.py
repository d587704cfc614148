"""What clients were told while things went wrong, and what of it does not hold. Pure.

In the manner of Jepsen's Kafka workload: what was acknowledged, read and committed is written down as it is
heard, and held against what the logs have in the end.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Log = Sequence[tuple[int, bytes]]
"""A partition in the end: offsets and values, as somebody reads them who begins at its start."""


class Commits(NamedTuple):
    """How far a group's commits were acknowledged when somebody began to look them up."""

    group_id: str
    offsets: Mapping[int, int]


class History:
    """What was heard. Each thread tells of one writer or reader: what another one writes it leaves alone."""

    def __init__(self) -> None:
        self.acknowledged: dict[bytes, tuple[int, int]] = {}  # Partition and offset, by value.
        self.reads: dict[str, list[tuple[int, int, bytes]]] = {}  # Partition, offset, value, by reader.
        self.assignments: Counter[str] = Counter()
        self._committed: dict[str, dict[int, int]] = {}
        self._back: list[str] = []

    def acknowledge(self, value: bytes, partition: int, offset: int) -> None:
        """Hear that a record was taken."""
        self.acknowledged[value] = (partition, offset)

    def assigned(self, reader: str) -> None:
        """Hear that a reader was given partitions, which ends each rebalance.

        Until its group has committed something it begins: then it may join more than once.
        """
        if self._committed.get(reader):
            self.assignments[reader] += 1

    def read(self, reader: str, partition: int, offset: int, value: bytes) -> None:
        """See a record handed out."""
        self.reads.setdefault(reader, []).append((partition, offset, value))

    def commit(self, group_id: str, offsets: Mapping[int, int]) -> None:
        """Hear that a group's offsets were committed."""
        known = self._committed.get(group_id, {})
        self._committed[group_id] = known | {
            each: max(offset, known.get(each, 0)) for each, offset in offsets.items()
        }

    def commits(self, group_id: str) -> Commits:
        """Return what a look at the group's offsets that begins now has to find at least."""
        return Commits(group_id, self._committed.get(group_id, {}))

    def looked_up(self, before: Commits, found: Mapping[int, int]) -> None:
        """Hear what offsets a group has; others may have committed more meanwhile."""
        for partition, offset in before.offsets.items():
            if found.get(partition, -1) < offset:
                what = f"{before.group_id} at {offset} of {partition}, then at {found.get(partition, -1)}"
                self._back.append(f"a committed offset went back: {what}")
        self.commit(before.group_id, found)

    def violations(self, logs: Mapping[int, Log]) -> list[str]:
        """Return what does not hold, one line each."""
        return [
            *self._lost(logs),
            *_doubled(logs),
            *self._misread(logs),
            *self._out_of_order(),
            *self._back,
            *self._rebalanced(),
        ]

    def _lost(self, logs: Mapping[int, Log]) -> list[str]:
        found = {partition: dict(log) for partition, log in logs.items()}
        return [
            f"lost or moved: {value!r}, acknowledged at {offset} of {partition}"
            for value, (partition, offset) in self.acknowledged.items()
            if found.get(partition, {}).get(offset) != value
        ]

    def _misread(self, logs: Mapping[int, Log]) -> list[str]:
        found = {partition: dict(log) for partition, log in logs.items()}
        return [
            f"read and gone: {reader} read {value!r} at {offset} of {partition}"
            for reader, reads in self.reads.items()
            for partition, offset, value in reads
            if found.get(partition, {}).get(offset) != value
        ]

    def _out_of_order(self) -> list[str]:
        wrong = []
        for reader, reads in self.reads.items():
            following: dict[int, int] = {}
            for partition, offset, _ in reads:
                expected = following.get(partition, offset)
                if offset != expected:
                    kind = "skipped" if offset > expected else "read again"
                    wrong.append(f"{kind}: {reader} read {offset} of {partition} where {expected} was next")
                following[partition] = offset + 1
        return wrong

    def _rebalanced(self) -> list[str]:
        return [
            f"rebalanced: {reader} was given partitions {count} times after its first commit"
            for reader, count in self.assignments.items()
        ]


def _doubled(logs: Mapping[int, Log]) -> list[str]:
    counts = Counter(value for log in logs.values() for _, value in log)
    return [f"doubled: {value!r}, {count} times" for value, count in counts.items() if count > 1]
