"""A simulated etcd: members with the same keys, and their faults.

A member that stands still carries out later what it was asked, when nobody waits for it any more. Members
answer while more than half of them run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

from kohort.broker.etcd.key_store import Entry
from kohort.broker.etcd.messages import Json
from kohort.testing.etcd_store import EtcdStore
from kohort.testing.simulation.etcd_member import EtcdMember
from kohort.testing.simulation.kernel import SECOND, Kernel
from kohort.testing.simulation.network import Network

TICK_SECONDS = 0.25  # Leases may end so late.
BUMPED_REVISIONS = 1_000_000  # What `etcdutl snapshot restore --bump-revision` is given.
REVISIONS_KEPT = 3  # By a compaction.


class SimulatedEtcd:
    """The members, named `etcd-1` and so on, and what they keep."""

    def __init__(self, kernel: Kernel, network: Network, members: int = 3) -> None:
        """Start them."""
        self.kernel = kernel
        self.network = network
        self.random = Random(kernel.random.getrandbits(64))
        self.store = EtcdStore()
        self.lost_requests = 0.0
        """How often a request gets lost before anything is done: from 0 to 1."""
        self.lost_answers = 0.0
        """How often a request is executed and its answer is lost: from 0 to 1."""
        self.late_requests = 0.0
        """How often a request is carried out later and not answered: from 0 to 1."""
        self.late_seconds_max = 10.0
        self.hold: Callable[[str, Json], float] = lambda path, form: 0.0
        """Returns how much later a call is carried out, unanswered; 0 where it is answered at once."""
        self.members = [EtcdMember(self, f"etcd-{number}") for number in range(1, members + 1)]
        self._had_quorum = True
        self._tick()

    @property
    def addresses(self) -> str:
        """Hosts and ports, as `kohort.cluster` takes them."""
        return ",".join(each.address for each in self.members)

    @property
    def has_quorum(self) -> bool:
        """Whether more than half of the members run."""
        return sum(each.is_awake for each in self.members) > len(self.members) // 2

    def now(self) -> float:
        """Return the time by which leases end, in seconds."""
        return self.kernel.time_ns / SECOND

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Tell the watches of what changes within the block."""
        revision = self.store.revision
        yield
        self.kernel.note(f"etcd has revision {self.store.revision}")
        if self.store.revision != revision:
            for each in self.members:
                each.tell()

    def late_by(self, path: str, form: Json) -> float:
        """Return how much later a call is carried out. Nobody hears of it then."""
        is_late = self.random.random() < self.late_requests
        return self.random.uniform(0, self.late_seconds_max) if is_late else self.hold(path, form)

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Change something after `seconds`."""

        def act() -> None:
            with self.changing():
                action()

        self.kernel.call_after(int(seconds * SECOND), act)

    def _tick(self) -> None:
        """End leases. A new leader gives each lease its whole time again, as etcd's does."""
        if self.has_quorum:
            if not self._had_quorum:
                self.store.begin_leases_anew(self.now())
            with self.changing():
                self.store.expire(self.now())
        self._had_quorum = self.has_quorum
        self.kernel.call_after(int(TICK_SECONDS * SECOND), self._tick)

    # -- faults -------------------------------------------------------------------------------------------

    def end_lease(self) -> bool:
        """End a lease before its time, with its keys; that takes a quorum. Return whether one was ended."""
        if not self._had_quorum:
            return False
        with self.changing():
            self.store.expire(self.now())
            lease_ids = self.store.lease_ids
            if lease_ids:
                self.store.answer("lease/revoke", {"ID": self.random.choice(lease_ids)}, self.now())
        return bool(lease_ids)

    def hold_leases(self, seconds: float) -> None:
        """Let leases end so much later than they should, from now on."""
        self.store.late_seconds = seconds

    def compact(self) -> None:
        """Forget how it came about, all but the last few revisions."""
        revision = self.store.revision - REVISIONS_KEPT
        if revision > self.store.compacted:
            self.store.answer("kv/compaction", {"revision": revision}, self.now())

    def heal(self) -> None:
        """Let nothing get lost, come late or take long any more."""
        self.lost_requests = self.lost_answers = self.late_requests = self.store.late_seconds = 0.0
        for each in self.members:
            each.slow_seconds = each.watch_lag_seconds = 0.0

    # -- backups ------------------------------------------------------------------------------------------

    def backup(self) -> list[Entry]:
        """Return what `etcdctl snapshot save` keeps."""
        return self.store.entries()

    def restore(self, backup: Sequence[Entry]) -> None:
        """Restore a snapshot as `etcdutl snapshot restore --bump-revision --mark-compacted` does."""
        for each in self.members:
            each.kill()
        revision = self.store.revision + BUMPED_REVISIONS
        self.store = EtcdStore([each for each in backup if not each.lease], revision)
        self.store.compacted = revision
        for each in self.members:
            each.start()
