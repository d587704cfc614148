"""Transactions in a run of the cluster: producers that die, stand still and have rivals, and readers."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from kohort.broker.metadata.partition_state import PartitionState
from tests.simulation.cluster.disk import MemoryLog
from tests.simulation.cluster.session import partition_key
from tests.simulation.cluster.transactions.clients import (
    CommittedReader,
    TransactionalProducer,
    group_id_of,
)
from tests.simulation.cluster.transactions.ledger import Ledger

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

IDS = ("x0", "x1", "x2")
STEP_MS = 5_000
PAUSE_MS_MAX = 15_000
GOES_ON_MS_MAX = 90_000
ENDS_MS_MAX = 60_000
LOOK_MS = 1_000


class Ensemble:
    """All of them, moved by a random of their own."""

    def __init__(self, world: "World", random: Random) -> None:
        self.ledger = Ledger(world.books.expect, self._is_clean)
        self._world = world
        self._random = random
        self._serial = 0
        self._processes: dict[str, list[TransactionalProducer]] = {each: [] for each in IDS}
        self._stopped = False

    def begin(self) -> None:
        """Act from now on."""
        for transactional_id in IDS:
            self._start(transactional_id)
        for index in range(len(self._world.written)):
            CommittedReader(self._world, index, self._fresh_random(), self.ledger)
        self._step_later()

    def _is_clean(self) -> bool:
        """Whether no partition that counts was led uncleanly: else what is lost was allowed to be."""
        books = self._world.books.partitions
        return not any(books[each].unclean_since for each in self._touched)

    @property
    def _touched(self) -> tuple[int, ...]:
        """Where transactions leave something: their state, groups' offsets, records."""
        state_index = self._world.state_index
        assert state_index is not None
        return state_index, state_index + 1, *self._world.written

    def _fresh_random(self) -> Random:
        return Random(self._random.getrandbits(64))

    def _start(self, transactional_id: str) -> None:
        self._serial += 1
        process = TransactionalProducer(
            self._world, transactional_id, self._serial, self._fresh_random(), self.ledger
        )
        self._processes[transactional_id] = [*self._running(transactional_id), process]

    def _running(self, transactional_id: str) -> list[TransactionalProducer]:
        return [each for each in self._processes[transactional_id] if each.alive and not each.has_ended]

    def _step_later(self) -> None:
        self._world.schedule.after(self._random.randrange(2 * STEP_MS), self._step)

    def _step(self) -> None:
        if self._stopped:
            return
        transactional_id = self._random.choice(IDS)
        running = self._running(transactional_id)
        if not running or self._random.random() < 0.25:  # One that comes while another runs takes its id.
            self._start(transactional_id)
        elif self._random.random() < 0.5:
            self._random.choice(running).alive = False
        else:
            self._random.choice(running).pause(self._random.randrange(PAUSE_MS_MAX))
        self._step_later()

    # -- what must hold -------------------------------------------------------------------------------------

    def check(self) -> None:
        """See every id go on once nothing befalls it, then every transaction end, and look what is there."""
        self._stopped = True
        before = dict(self.ledger.commits)
        self._wait_for(
            "after the faults every transactional id commits again",
            GOES_ON_MS_MAX,
            lambda: self._idle(before),
        )
        for each in IDS:
            for process in self._running(each):
                process.alive = False
        self._wait_for("every transaction ends in the end", ENDS_MS_MAX, self._open)
        if self._is_clean():
            self.ledger.check([self._log(each) for each in self._world.written])
            self._check_offsets()
        seen = self._world.books.seen
        seen["transaction committed"] += sum(self.ledger.commits.values())
        seen["transaction aborted"] += self.ledger.aborts

    def _check_offsets(self) -> None:
        """Look what groups have committed: what its coordinator says is what the log has."""
        _, offsets_index, *_ = self._touched
        found = self.ledger.check_offsets(self._log(offsets_index))
        coordinator = self._world.brokers[self._leader(offsets_index)].led_transactions
        for each in IDS:
            group_id = group_id_of(each)
            said, right = coordinator.offset(group_id), found.get(group_id)
            rule = "who takes groups over knows what is committed"
            self._world.books.expect(rule, said == right, lambda s=said, r=right: f"{s}, not {r}")  # type: ignore[misc]  # bound defaults

    def _log(self, world_index: int) -> MemoryLog:
        return self._world.disks[self._leader(world_index)].logs[world_index]

    def _wait_for(self, rule: str, ms_max: int, missing: Callable[[], list[str]]) -> None:
        deadline_ms = self._world.schedule.time_ms + ms_max
        while self._is_clean() and (what := missing()):
            in_time = self._world.schedule.time_ms < deadline_ms
            self._world.books.expect(rule, in_time, lambda what=what: f"{what}")  # type: ignore[misc]  # a bound default
            self._world.schedule.run_until(self._world.schedule.time_ms + LOOK_MS)

    def _idle(self, before: dict[str, int]) -> list[str]:
        """Return the ids that have not committed since; each gets a process that runs."""
        idle = [each for each in IDS if self.ledger.commits[each] <= before.get(each, 0)]
        for each in idle:
            running = self._running(each)
            for rival in running[1:]:
                rival.alive = False
            if not running:
                self._start(each)
        return idle

    def _open(self) -> list[str]:
        """Return what has not ended, or is not stable yet."""
        found: list[str] = []
        state_index, *touched = self._touched
        coordinator = self._world.brokers.get(self._leader(state_index))
        found += ["no coordinator"] if coordinator is None else coordinator.led_transactions.under_way()
        for world_index in touched:
            broker = self._world.brokers.get(self._leader(world_index))
            led = None if broker is None else broker.led_transactions.led(world_index)
            if led is None or led.last_stable_offset < led.log.log_end_offset:
                found.append(f"partition {world_index}")
        return found

    def _leader(self, world_index: int) -> int:
        state: PartitionState = self._world.etcd.entries[partition_key(world_index)].value
        return state.leader
