"""What was promised of transactions in the cluster: who wrote what, how it ended, what readers were shown."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from kohort.protocol.offsets_topic import OffsetCommitRecord, decode_record
from kohort.protocol.records import ControlType, iterate_records, read_control_type, read_header
from tests.simulation.cluster.disk import MemoryLog
from tests.simulation.cluster.transactions.partitions import batches_of


class Attempt:
    """One transaction: what it writes to every partition, and what its producer was told."""

    __slots__ = ("commit_is_asked", "has_offset", "token", "told", "values")

    def __init__(self, token: str) -> None:
        self.token = token
        self.values: dict[str, int] = {}  # Which partition each belongs to.
        self.commit_is_asked = False
        self.told: bool | None = None
        self.has_offset = False  # Whether a group's offset is known to go with it.


class Ledger:
    """All transactions of a run. `is_clean` says whether nothing was lost that may be lost."""

    def __init__(
        self,
        expect: Callable[[str, bool, Callable[[], str]], None],
        is_clean: Callable[[], bool],
    ) -> None:
        self._expect = expect
        self.is_clean = is_clean
        self._attempts: dict[str, Attempt] = {}
        self.commits: dict[str, int] = defaultdict(int)
        self.aborts = 0

    def begin(self, transactional_id: str) -> Attempt:
        """Return a new transaction."""
        attempt = Attempt(f"{transactional_id}:{len(self._attempts)}")
        self._attempts[attempt.token] = attempt
        return attempt

    def ended(self, transactional_id: str, attempt: Attempt, *, is_commit: bool) -> None:
        """A producer is told that its transaction has ended as it asked."""
        attempt.told = is_commit
        if is_commit:
            self.commits[transactional_id] += 1
        else:
            self.aborts += 1

    def shown(self, index: int, value: str) -> None:
        """A reader of committed records is shown one."""
        attempt = self._attempts[value.rpartition("/")[0]]
        if self.is_clean():
            self._expect(
                "only what is committed is shown",
                attempt.commit_is_asked and attempt.told is not False and attempt.values[value] == index,
                lambda: f"{value} in {index}: {attempt.told}",
            )

    def check(self, logs: Sequence[MemoryLog]) -> None:
        """Look in the end what all partitions have committed, by their markers alone."""
        there = [_committed_in(log) for log in logs]
        found = {value for values in there for value in values}
        for index, values in enumerate(there):
            twice = [each for each, count in Counter(values).items() if count > 1]
            self._expect("nothing is there twice", not twice, lambda i=index, t=twice: f"{i}: {t}")  # type: ignore[misc]  # bound defaults
        for attempt in self._attempts.values():
            seen = [each for each in attempt.values if each in found]
            rule, detail = "all of a transaction is there, or nothing", f"{attempt.token}: {seen}"
            self._expect(rule, len(seen) in (0, len(attempt.values)), lambda d=detail: d)  # type: ignore[misc]  # a bound default
            if attempt.told is not None:
                rule = "a transaction has ended as its producer was told"
                self._expect(rule, bool(seen) == attempt.told or not attempt.values, lambda d=detail: d)  # type: ignore[misc]  # a bound default

    def check_offsets(self, log: MemoryLog) -> dict[str, str]:
        """Look which offsets a log has committed; return the metadata of each group's last."""
        found = [each for batch in _committed_batches(log) for each in _offsets_of(batch)]
        tokens = {token for _, token in found}
        for attempt in self._attempts.values():
            if attempt.told is not None and (attempt.has_offset or not attempt.told):
                right = attempt.told
                self._expect(
                    "an offset counts where its transaction does",
                    (attempt.token in tokens) == right,
                    lambda each=attempt: f"{each.token}: {each.told}",  # type: ignore[misc]  # a bound default
                )
        return dict(found)


def _committed_in(log: MemoryLog) -> list[str]:
    """Return the values that a log has committed."""
    return [value for batch in _committed_batches(log) for value in values_of(batch)]


def _committed_batches(log: MemoryLog) -> Iterator[bytes]:
    """Yield the batches that a log has committed, transaction by transaction."""
    pending: dict[int, list[bytes]] = defaultdict(list)
    for _, batch in batches_of(log):
        header = read_header(batch)
        if header.is_control:
            kinds = {read_control_type(record.key) for record in iterate_records(batch)}
            batches = pending.pop(header.producer_id, [])
            yield from batches if ControlType.COMMIT in kinds else ()
        elif header.is_transactional:
            pending[header.producer_id].append(batch)
        else:
            yield batch


def _offsets_of(batch: bytes) -> Iterator[tuple[str, str]]:
    """Yield groups, and the metadata of the offsets that a batch commits."""
    for record in iterate_records(batch):
        found = decode_record(bytes(record.key or b""), None if record.value is None else bytes(record.value))
        assert isinstance(found, OffsetCommitRecord)
        assert found.value is not None
        yield found.key.group, found.value.metadata


def values_of(batch: bytes) -> list[str]:
    """Return what a batch of a transaction has."""
    return [bytes(record.value or b"").decode() for record in iterate_records(batch)]
