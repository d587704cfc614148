"""What goes wrong with the etcd of a simulated cluster, drawn from the seed."""

from base64 import b64decode
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import msgspec

from kohort.broker.etcd.messages import Json
from kohort.testing.simulation.chaos import FurtherFault
from kohort.testing.simulation.endings import Endings
from kohort.testing.simulation.kernel import SECOND, Handle
from kohort.testing.simulation.simulated_broker import SimulatedBroker
from kohort.testing.simulation.simulated_cluster import SimulatedCluster

HELD_SECONDS = (3.0, 8.0)
FAIL_OVER_SECONDS = 0.3
DOWN_SECONDS = 8.0
STANDING_SECONDS_MAX = 12.0  # Longer than a client waits, and longer than a lease.
TROUBLE_SECONDS_MAX = 15.0


class _Joining(NamedTuple):
    """A change of a partition that lets a follower into the in-sync replicas."""

    leader: int
    follower: int


class EtcdFaults:
    """Each of `kinds` does something to etcd, and returns words for it."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._etcd = etcd = cluster.etcd
        self._hold_nothing = etcd.hold
        self._endings = Endings(etcd.kernel)
        self._deaths: list[Handle] = []  # They are still to come.
        self.kinds: list[FurtherFault] = [
            self._stand_still,
            self._be_slow,
            self._lag,
            self._break_watches,
            self._compact,
            self._end_lease,
            self._hold_leases,
            self._hold_joining,
        ]

    def begin(self) -> None:
        """Let answers and requests get lost, or come late."""
        self._etcd.lost_answers = self._etcd.lost_requests = self._etcd.late_requests = 0.01

    def end(self) -> None:
        """Let all be well, and everybody run."""
        for death in self._deaths:
            death.cancel()
        self._endings.end_all()
        self._etcd.heal()
        self._etcd.hold = self._hold_nothing

    def _later(self, seconds: float, target: object, name: str) -> None:
        self._endings.end_later(seconds, (target, name), lambda: setattr(target, name, 0.0))

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

    # -- who joins dies while etcd holds that back ----------------------------------------------------------

    def _hold_joining(self, random: Random) -> str:
        """Carry out later the next change that lets a follower in. It dies meanwhile, and the leader then."""
        seconds = random.uniform(*HELD_SECONDS)

        def hold(path: str, form: Json) -> float:
            joining = next(self._joining(form), None) if path == "kv/txn" else None
            if joining is None:
                return 0.0
            self._etcd.hold = self._hold_nothing
            brokers = self._cluster.brokers
            leader, follower = brokers[joining.leader], brokers[joining.follower]
            self._kill(follower, 0.0, 0.1)
            self._cut(leader, follower, seconds + 2 * FAIL_OVER_SECONDS)
            self._kill(leader, seconds + FAIL_OVER_SECONDS, DOWN_SECONDS)
            return seconds

        self._etcd.hold = hold
        return "etcd holds back who joins next"

    def _joining(self, form: Json) -> Iterator[_Joining]:
        known = {each.key: each.value for each in self._etcd.store.entries() if b"/partitions/" in each.key}
        for operation in form["success"]:
            put = operation.get("request_put", {"key": ""})
            before = known.get(b64decode(put["key"]))
            if before is None:
                continue
            old, new = _state(before), _state(b64decode(put["value"]))
            joined = set(new["isr"]) - set(old["isr"])
            if joined and new["leader"] == old["leader"]:
                yield _Joining(new["leader"], joined.pop())

    def _kill(self, broker: SimulatedBroker, after_seconds: float, down_seconds: float) -> None:
        self._deaths.append(self._etcd.kernel.call_after(int(after_seconds * SECOND), broker.kill))
        seconds = after_seconds + down_seconds
        # A broker may be about to die twice: it is started again behind each death.
        each = (broker, len(self._deaths))
        self._endings.end_later(seconds, each, lambda: None if broker.is_running else broker.start())

    def _cut(self, one: SimulatedBroker, other: SimulatedBroker, seconds: float) -> None:
        network, links = self._etcd.network, ((one.host, other.host), (other.host, one.host))

        def mend() -> None:
            for source, target in links:
                network.mend(source, target, by=self)

        for source, target in links:
            network.cut(source, target, by=self)
        self._endings.end_later(seconds, links, mend)


def _state(value: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(value)
    return found
