"""Faults of a simulated test, drawn from the seed: which one happens when, to whom and for how long.

Each fault has a random generator of its own, from the seed and its number. So a run without some of the
faults has the others unchanged, and a failure can be made smaller.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, Protocol

from kohort.testing.simulation.endings import Endings
from kohort.testing.simulation.kernel import SECOND, Handle, Kernel
from kohort.testing.simulation.network import Network

DOWN_SECONDS_MAX = 15.0
CUT_SECONDS_MAX = 30.0
DISK_SECONDS_MAX = 20.0


FurtherFault = Callable[[Random], str | None]
"""Injects a fault and returns a text that begins with the victim's name; None without a fault."""


class Fault(NamedTuple):
    """What was injected."""

    number: int
    seconds: float
    words: str


class Victim(Protocol):
    """A program that is ended and started again."""

    name: str
    lives: int

    @property
    def is_running(self) -> bool:
        """Whether it has neither ended nor been killed."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    def start(self) -> None:
        """Begin a life."""
        ...


class Pausable(Victim, Protocol):
    """A program that can stand still."""

    def pause(self, seconds: float) -> None:
        """Let it stand still."""
        ...


class Application(Pausable, Protocol):
    """A process of the application."""

    def terminate(self) -> None:
        """Ask it to end."""
        ...


class Server(Victim, Protocol):
    """A broker, or what brokers need."""

    @property
    def is_serving(self) -> bool:
        """Whether it is started and answers."""
        ...

    def lose_power(self) -> None:
        """Let its machine lose its power."""
        ...


class Disk(Protocol):
    """The disk of a machine."""

    latency_ms: int

    def fill(self, left_bytes: int | None) -> None:
        """Let only that much more be written; None is without limit."""
        ...

    def fail_sync(self, after: int | None, times: int = 1) -> None:
        """Let a sync fail soon; None takes it back."""
        ...


class DiskOwner(Server, Protocol):
    """A broker whose disk can fail."""

    @property
    def disk(self) -> Disk:
        """Its disk."""
        ...

    def die_at_operation(self, operation: int, *, without_power: bool) -> None:
        """Let it die before a later operation on its disk."""
        ...

    def live_on(self) -> None:
        """Let it not die, if it is alive."""
        ...


class FaultyWorld(Protocol):
    """The part of the world that faults need."""

    seed: int
    kernel: Kernel
    network: Network
    faults: list[Fault]

    def note(self, words: str) -> None:
        """Add to the story."""
        ...


class Chaos:
    """Injects faults until it is ended."""

    def __init__(
        self,
        world: FaultyWorld,
        *,
        kill: Sequence[Application],
        restart: Sequence[Server],
        pause: Sequence[Pausable],
        fail_disks: Sequence[DiskOwner],
        pause_seconds: float,
        cut_network: bool,
        also: Sequence[FurtherFault],
        every_seconds: float,
        without: frozenset[int],
    ) -> None:
        self._world = world
        self._kill = list(kill)
        self._restart = list(restart)
        self._pause = list(pause)
        self._fail_disks = list(fail_disks)
        self._pause_seconds = pause_seconds
        self._every_seconds = every_seconds
        self._without = without
        self._kinds = list(also)
        if kill:
            self._kinds += [self._kill_one, self._terminate_one]
        if restart:
            self._kinds += [self._kill_broker, self._power_off_broker]
        if self._pause and pause_seconds:
            self._kinds.append(self._pause_one)
        if cut_network:
            self._kinds.append(self._cut_off)
        if fail_disks:
            self._kinds += [
                self._fill_disk,
                self._fail_sync,
                self._slow_disk,
                self._die_inside,
                self._die_inside,
            ]
        self._next: Handle | None = None
        self._is_over = False
        self._endings = Endings(world.kernel)
        self._down: dict[Victim, int] = {}  # Programs to start again, and the life that was ended.

    def begin(self) -> None:
        """Have the first fault some time from now."""
        self._plan()

    def _plan(self) -> None:
        if not self._kinds or self._is_over:
            return
        number = len(self._world.faults)
        random = Random(f"{self._world.seed}/{number}")
        delay_ns = int(random.uniform(0.2, 1.8) * self._every_seconds * SECOND)
        self._next = self._world.kernel.call_after(delay_ns, lambda: self._happen(number, random))

    def _happen(self, number: int, random: Random) -> None:
        words = None
        if number not in self._without:
            words = random.choice(self._kinds)(random)
        world = self._world
        world.faults.append(Fault(number, world.kernel.time_ns / SECOND, words or "nothing"))
        if words is not None:
            world.note(f"fault {number}: {words}")
        self._plan()

    def _later(self, seconds: float, action: Callable[[], object]) -> None:
        self._world.kernel.call_after(int(seconds * SECOND), action)

    # -- faults -------------------------------------------------------------------------------------------

    def _kill_one(self, random: Random) -> str | None:
        victim, seconds = random.choice(self._kill), random.uniform(0, DOWN_SECONDS_MAX)
        return self._end(victim, victim.kill, "is killed", seconds) if victim.is_running else None

    def _terminate_one(self, random: Random) -> str | None:
        victim, seconds = random.choice(self._kill), random.uniform(0, DOWN_SECONDS_MAX)
        return self._end(victim, victim.terminate, "is told to end", seconds) if victim.is_running else None

    def _kill_broker(self, random: Random) -> str | None:
        server, seconds = random.choice(self._restart), random.uniform(0.5, DOWN_SECONDS_MAX)
        return self._end(server, server.kill, "is killed", seconds) if server.is_serving else None

    def _power_off_broker(self, random: Random) -> str | None:
        server, seconds = random.choice(self._restart), random.uniform(0.5, DOWN_SECONDS_MAX)
        return self._end(server, server.lose_power, "loses its power", seconds) if server.is_serving else None

    def _end(self, victim: Victim, end: Callable[[], object], words: str, seconds: float) -> str | None:
        """End a program that is not down already, and plan its next life."""
        if victim in self._down:
            return None
        self._down[victim] = life = victim.lives
        end()
        self._later(seconds, lambda: self._start_again(victim, life))
        return f"{victim.name} {words}, and is started again {seconds:.1f} s later"

    def _start_again(self, victim: Victim, life: int) -> None:
        """Start a program again after that life was ended, unless it was started elsewhere."""
        if self._down.get(victim) != life:
            return
        if victim.lives == life and victim.is_running:  # It takes its time to end.
            self._later(1.0, lambda: self._start_again(victim, life))
            return
        del self._down[victim]
        if victim.lives == life:
            victim.start()
            self._world.note(f"{victim.name} is started again")

    def _fill_disk(self, random: Random) -> str | None:
        broker, left_bytes = random.choice(self._fail_disks), random.randrange(4_000)
        broker.disk.fill(left_bytes)
        words = f"has {left_bytes} bytes of its disk left"
        return self._heal_later(broker, random, "full", words, lambda: broker.disk.fill(None))

    def _fail_sync(self, random: Random) -> str | None:
        broker, after = random.choice(self._fail_disks), random.randrange(4)
        broker.disk.fail_sync(after, random.choice((1, 1, 3)))
        words = "cannot sync its disk"
        return self._heal_later(broker, random, "unsynced", words, lambda: broker.disk.fail_sync(None))

    def _slow_disk(self, random: Random) -> str | None:
        broker = random.choice(self._fail_disks)
        broker.disk.latency_ms = random.choice((20, 200, 1_000))
        words = f"has a disk that takes {broker.disk.latency_ms} ms to sync"
        return self._heal_later(broker, random, "slow", words, lambda: setattr(broker.disk, "latency_ms", 1))

    def _heal_later(
        self, broker: DiskOwner, random: Random, kind: str, words: str, heal: Callable[[], object]
    ) -> str:
        """End a fault of a disk later. One of the same kind replaces it, and ends at its own time."""
        seconds = random.uniform(1, DISK_SECONDS_MAX)
        self._endings.end_later(seconds, (broker, kind), heal)
        return f"{broker.name} {words}, for {seconds:.1f} s"

    def _die_inside(self, random: Random) -> str | None:
        """End a broker between two operations on its disk."""
        broker, seconds = random.choice(self._fail_disks), random.uniform(0.5, DOWN_SECONDS_MAX)
        operation, without_power = random.randrange(60), random.random() < 0.5
        if not broker.is_serving or broker in self._down:
            return None
        self._down[broker] = life = broker.lives
        broker.die_at_operation(operation, without_power=without_power)
        self._later(seconds, lambda: self._live_again(broker, life))
        ending = "loses its power" if without_power else "is killed"
        return (
            f"{broker.name} {ending} at operation {operation} on its disk, and serves {seconds:.1f} s later"
        )

    def _live_again(self, broker: DiskOwner, life: int) -> None:
        if self._down.get(broker) != life:
            return
        if broker.lives == life:
            broker.live_on()
        if broker.is_running:  # It has done fewer operations, or was started elsewhere.
            del self._down[broker]
        else:
            self._start_again(broker, life)

    def _pause_one(self, random: Random) -> str | None:
        victim, seconds = random.choice(self._pause), random.uniform(1, self._pause_seconds)
        if not victim.is_running:
            return None
        victim.pause(seconds)
        return f"{victim.name} stands still for {seconds:.1f} s"

    def _cut_off(self, random: Random) -> str | None:
        network = self._world.network
        names = [each.name for each in (*self._kill, *self._pause)] + [each.name for each in self._restart]
        if not names:
            return None
        host, seconds = network.host(random.choice(names)), random.uniform(1, CUT_SECONDS_MAX)
        network.cut_off(host)
        self._endings.end_later(seconds, host, lambda: network.reconnect(host))
        return f"{host.name} is cut off the network for {seconds:.1f} s"

    # -- the end ------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Inject nothing more, end running faults, mend the network, and start programs that are down."""
        self._is_over = True
        if self._next is not None:
            self._next.cancel()
        self._endings.end_all()
        self._world.network.mend_all()
        for broker in self._fail_disks:
            self._live_again(broker, broker.lives)
        for victim, life in tuple(self._down.items()):
            self._start_again(victim, life)
        self._world.note("no more faults")
