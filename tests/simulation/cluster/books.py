"""What must hold in a cluster, and what was seen of it: one truth beside all brokers."""

from collections import Counter
from collections.abc import Callable

from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState
from tests.simulation.books import Violation
from tests.simulation.cluster.disk import MemoryLog, Record
from tests.simulation.cluster.etcd import Entry, Event

Life = tuple[int, int]
"""A node id, and which of its lives."""


class PartitionBook:
    """What is known of one partition since its last unclean election."""

    def __init__(self, unclean_since: int = 0) -> None:
        self.unclean_since = unclean_since  # The leader epoch: what older ones show counts no more.
        self.committed: list[Record] = []
        self.acknowledged: dict[int, int] = {}  # Values by their offsets.


class Books:
    """Rules, by name, each counted as often as it was looked at."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.checked: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.partitions: dict[int, PartitionBook] = {}
        self.may_be_unclean: set[int] = set()
        self.kept_some: set[int] = set()
        """The node ids whose logs have lost their ends, but no more."""
        self._leaders: dict[tuple[int, int], Life] = {}

    def expect(self, rule: str, holds: bool, detail: Callable[[], str]) -> None:
        """Count the rule. Raises: Violation."""
        self.checked[rule] += 1
        if not holds:
            raise Violation(f"{rule}: {detail()}")

    # -- the metadata -----------------------------------------------------------------------------------

    def changed(self, event: Event, before: Entry | None) -> None:
        """Look at what etcd has taken."""
        self.note(f"etcd {event.revision} {event.key} {None if event.entry is None else event.entry.value}")
        if event.key[0] != "partition" or event.entry is None:
            return
        index = event.key[1]
        if before is None:
            self.partitions[index] = PartitionBook()
            return
        self._check_change(index, before.value, event.entry.value)

    def _check_change(self, index: int, before: PartitionState, after: PartitionState) -> None:
        self.expect(
            "epochs of a partition only grow",
            after.leader_epoch >= before.leader_epoch and after.partition_epoch == before.partition_epoch + 1,
            lambda: f"{before} became {after}",
        )
        self.expect(
            "another leader has another leader epoch",
            after.leader == before.leader or after.leader_epoch > before.leader_epoch,
            lambda: f"{before} became {after}",
        )
        self.expect(
            "a leader is in sync", after.leader in {NO_LEADER, *after.isr}, lambda: f"{before} became {after}"
        )
        self.expect(
            "replicas have their directories",
            len(after.directories) == len(after.replicas)
            and set(after.isr + after.elr) <= set(after.replicas),
            lambda: f"{before} became {after}",
        )
        self.seen["leader elected"] += after.leader not in {before.leader, NO_LEADER}
        self.seen["led anew"] += after.leader == before.leader and after.leader_epoch > before.leader_epoch
        self.seen["isr shrunk"] += len(after.isr) < len(before.isr)
        self.seen["isr grown"] += len(after.isr) > len(before.isr)
        self.seen["eligible outside the isr"] += bool(after.elr) and not before.elr
        self.seen["reassigned"] += bool(before.adding or before.removing) and not (
            after.adding or after.removing
        )
        self.seen["taken back from a leader that was added"] += (
            before.leader in before.adding and before.leader not in after.replicas
        )
        stayed = _with_another_folder(before, after)
        if stayed:
            others = {*before.isr, *before.elr} - _changed_folders(before, after)
            is_last = stayed <= self.kept_some and not others
            self.seen["what was left of the last replica counts"] += is_last
            self.expect(
                "who may have lost something stays only where nobody else has everything",
                len(stayed) == 1 and (is_last or (index in self.may_be_unclean and after.leader in stayed)),
                lambda: f"{before} became {after}",
            )
            self.unclean(index, after.leader_epoch + (after.leader_epoch == before.leader_epoch))
        elif after.leader not in {NO_LEADER, before.leader} or _came_back_empty(before, after):
            if after.leader in before.elr and not _came_back_empty(before, after):
                self.seen["elected from the eligible"] += 1
            elif after.leader not in before.isr or _came_back_empty(before, after):
                self.expect(
                    "nobody leads uncleanly where the topic forbids it",
                    index in self.may_be_unclean,
                    lambda: f"{before} became {after}",
                )
                self.unclean(index, after.leader_epoch)

    def unclean(self, index: int, leader_epoch: int) -> None:
        """Hear that a leader was elected that may lack something: the truth begins anew with its log."""
        self.note(f"partition {index} is led uncleanly")
        self.seen["unclean election"] += 1
        self.partitions[index] = PartitionBook(leader_epoch)

    def joins(self, index: int, node_id: int, log: MemoryLog | None) -> None:
        """See a broker become in sync, and so become one of those who may lead."""
        committed = self.partitions[index].committed
        self.expect(
            "who joins the in-sync replicas has all that is committed",
            not committed
            or (
                log is not None
                and log.flushed_offset >= len(committed)
                and log.records[: len(committed)] == committed
            ),
            lambda: (
                f"partition {index}: broker {node_id} has {0 if log is None else log.flushed_offset} "
                f"of {len(committed)}"
            ),
        )

    # -- what brokers do --------------------------------------------------------------------------------

    def leads(self, index: int, leader_epoch: int, life: Life) -> None:
        """See a broker act as leader."""
        known = self._leaders.setdefault((index, leader_epoch), life)
        self.expect(
            "one leader per leader epoch",
            known == life,
            lambda: f"partition {index}, epoch {leader_epoch}: {known} and {life}",
        )

    def shows(
        self,
        index: int,
        leader_epoch: int,
        log: MemoryLog,
        before: int,
        high_watermark: int,
        *,
        is_leader: bool,
    ) -> None:
        """See a leader or a follower take what lies below for committed; `before` was checked already.

        After an unclean election followers have what was committed before it, until they are cut.
        """
        book = self.partitions[index]
        if leader_epoch < book.unclean_since or (book.unclean_since and not is_leader):
            return
        committed = book.committed
        first = min(before, len(committed))
        own = log.records[first:high_watermark]
        known = committed[first:high_watermark]
        self.expect(
            "logs agree below the high watermark",
            len(own) == high_watermark - first and own[: len(known)] == known,
            lambda: (
                f"partition {index} under epoch {leader_epoch} from {first} to {high_watermark}: "
                f"{own[:50]} where {known[:50]} was committed"
            ),
        )
        committed += own[len(known) :]

    def cut(self, index: int, leader_epoch: int, offset: int, high_watermark: int) -> None:
        """See a follower cut its log."""
        self.seen["log truncated"] += 1
        if leader_epoch >= self.partitions[index].unclean_since and self.partitions[index].unclean_since == 0:
            self.expect(
                "what is committed is not cut off",
                offset >= high_watermark,
                lambda: f"partition {index} at {offset}, below {high_watermark}",
            )

    def answers(self, life: Life, holds_lease: bool) -> None:
        """See a broker answer a client."""
        self.expect("who answers holds its lease", holds_lease, lambda: f"{life}")

    # -- what clients hear ------------------------------------------------------------------------------

    def acknowledged(self, index: int, leader_epoch: int, offset: int, value: int, missing: int) -> None:
        """Hear that a record is said to be on enough disks, of which so many are `missing` in truth."""
        book = self.partitions[index]
        if leader_epoch < book.unclean_since:
            return
        self.expect(
            "what is acknowledged is committed",
            offset < len(book.committed) and book.committed[offset].value == value,
            lambda: f"partition {index} at {offset}: {value}, committed up to {len(book.committed)}",
        )
        self.expect(
            "what is acknowledged is on enough disks",
            missing <= 0,
            lambda: f"partition {index} at {offset} lacks {missing}",
        )
        book.acknowledged[offset] = value

    def reads(self, index: int, leader_epoch: int, offset: int, record: Record) -> None:
        """See a consumer read a record."""
        book = self.partitions[index]
        if leader_epoch < book.unclean_since:
            return
        self.expect(
            "a record that is read is committed",
            offset < len(book.committed) and book.committed[offset] == record,
            lambda: f"partition {index} at {offset}: {record}",
        )

    def survives(self, index: int, log: MemoryLog) -> None:
        """Look in the end whether a log still has all that was acknowledged."""
        for offset, value in self.partitions[index].acknowledged.items():
            self.expect(
                "what was acknowledged survives",
                offset < log.log_end_offset and log.records[offset].value == value,
                lambda offset=offset, value=value: f"partition {index} at {offset}: {value}",  # type: ignore[misc]  # bound defaults
            )


def _changed_folders(before: PartitionState, after: PartitionState) -> set[int]:
    """Return the replicas whose folder is another than before."""
    known = dict(zip(before.replicas, before.directories, strict=True))
    now = zip(after.replicas, after.directories, strict=True)
    return {each for each, directory in now if known.get(each, directory) != directory}


def _with_another_folder(before: PartitionState, after: PartitionState) -> set[int]:
    """Return who is in sync, or eligible, as before though its folder is another."""
    return {*before.isr, *before.elr} & {*after.isr, *after.elr} & _changed_folders(before, after)


def _came_back_empty(before: PartitionState, after: PartitionState) -> bool:
    """Return whether the leader's folder is another than before."""
    known = dict(zip(before.replicas, before.directories, strict=True))
    now = dict(zip(after.replicas, after.directories, strict=True))
    return after.leader != NO_LEADER and known.get(after.leader, now[after.leader]) != now[after.leader]
