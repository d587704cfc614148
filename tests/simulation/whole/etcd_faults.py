"""What goes wrong with the etcd of a simulated cluster, drawn from the seed."""

from random import Random

from kohort.testing.simulation.chaos import FurtherFault
from kohort.testing.simulation.etcd import SimulatedEtcd
from kohort.testing.simulation.kernel import SECOND

STANDING_SECONDS_MAX = 12.0  # Longer than a client waits, and longer than a lease.
TROUBLE_SECONDS_MAX = 15.0


class EtcdFaults:
    """Each of `kinds` does something to etcd, and returns words for it."""

    def __init__(self, etcd: SimulatedEtcd) -> None:
        self._etcd = etcd
        self.kinds: list[FurtherFault] = [
            self._stand_still,
            self._be_slow,
            self._lag,
            self._break_watches,
            self._compact,
            self._end_lease,
            self._hold_leases,
        ]

    def begin(self) -> None:
        """Let answers and requests get lost, or come late."""
        self._etcd.lost_answers = self._etcd.lost_requests = self._etcd.late_requests = 0.01

    def end(self) -> None:
        """Let all be well."""
        self._etcd.heal()

    def _later(self, seconds: float, target: object, name: str) -> None:
        kernel = self._etcd.kernel
        kernel.call_after(int(seconds * SECOND), lambda: setattr(target, name, 0.0))

    def _stand_still(self, random: Random) -> str | None:
        member, seconds = random.choice(self._etcd.members), random.uniform(1, STANDING_SECONDS_MAX)
        if not member.is_running:
            return None
        member.pause(seconds)
        return f"{member.name} holds back what it is asked for {seconds:.1f} s"

    def _be_slow(self, random: Random) -> str:
        member, seconds = random.choice(self._etcd.members), random.uniform(1, TROUBLE_SECONDS_MAX)
        member.slow_seconds = random.choice((0.2, 1.2, 4.0))
        self._later(seconds, member, "slow_seconds")
        return f"{member.name} is slow for {seconds:.1f} s"

    def _lag(self, random: Random) -> str:
        member, seconds = random.choice(self._etcd.members), random.uniform(1, TROUBLE_SECONDS_MAX)
        member.watch_lag_seconds = random.choice((0.5, 2.0, 5.0))
        self._later(seconds, member, "watch_lag_seconds")
        return f"{member.name} tells its watches late for {seconds:.1f} s"

    def _break_watches(self, random: Random) -> str | None:
        member = random.choice(self._etcd.members)
        member.break_watches()
        return f"{member.name} ends its watches"

    def _compact(self, random: Random) -> str:
        for each in self._etcd.members:  # Whoever watches is behind.
            if random.random() < 0.5:
                each.break_watches()
        self._etcd.compact()
        return "etcd is compacted"

    def _end_lease(self, random: Random) -> str | None:
        return "etcd ends a lease early" if self._etcd.end_lease() else None

    def _hold_leases(self, random: Random) -> str:
        seconds = random.uniform(1, TROUBLE_SECONDS_MAX)
        self._etcd.hold_leases(random.uniform(1, 10))
        self._later(seconds, self._etcd.store, "late_seconds")
        return f"etcd ends leases late for {seconds:.1f} s"
