"""The world of a simulated test: brokers, processes of the application, a network, and what happens to them.

The test itself is a process of the world, on the host `test`. Everything that it awaits takes virtual time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from kohort.client import NewTopic, aio
from kohort.testing.simulation.asyncio_process import AsyncioProcess
from kohort.testing.simulation.chaos import Chaos, DiskOwner, Fault, FurtherFault, Pausable, Server
from kohort.testing.simulation.kernel import SECOND, Kernel
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.program import Program
from kohort.testing.simulation.simulated_broker import SimulatedBroker
from kohort.testing.simulation.simulated_cluster import SimulatedCluster

START_SECONDS_MAX = 60.0
RESTART_SECONDS = 5.0
LOOK_SECONDS = 0.05  # How often `until` looks.

Main = Callable[..., Coroutine[Any, Any, object]]


class NotReached(AssertionError):
    """A condition did not hold in time."""


class App(Program[AsyncioProcess]):
    """One process of the application, over all its lives."""

    def __init__(
        self,
        world: "World",
        name: str,
        main: Main,
        arguments: tuple[object, ...],
        restart_seconds: float | None,
    ) -> None:
        super().__init__(world.kernel, world.network, name, restart_seconds)
        self._note = world.note
        self._main = main
        self._arguments = arguments
        self.start()

    def begin(self) -> AsyncioProcess:
        """Return a process that runs the application."""
        name = f"{self.name}#{self.lives}"
        return AsyncioProcess(self.kernel, self.network, self.host, self._main, *self._arguments, name=name)

    def failed(self, error: BaseException) -> None:
        """Tell it in the story."""
        super().failed(error)
        words = str(error).partition("\n")[0]
        self._note(f"{self.process.name} ended with {type(error).__name__}: {words}")

    def restarted(self) -> None:
        """Tell it in the story."""
        self._note(f"{self.name} is started again")

    def terminate(self) -> None:
        """Ask it to end, as SIGTERM does."""
        self.process.terminate()

    def result(self) -> object:
        """Return what its coroutine returned. Raises: what it raised, RuntimeError while it has not ended."""
        outcome = self.process.outcome
        if outcome is None:
            raise RuntimeError(f"{self.name} has not ended by itself")
        return outcome.result()


class World:
    """What a simulated test is given."""

    def __init__(self, seed: int, without: frozenset[int] = frozenset()) -> None:
        """Begin from a seed. Faults of these numbers are left out: that is how a failure is made smaller."""
        self.seed = seed
        self.kernel = Kernel(seed)
        self.network = Network(self.kernel)
        self.random = Random(self.kernel.random.getrandbits(64))
        """For the test's own choices."""
        self.brokers: list[SimulatedBroker] = []
        self.apps: list[App] = []
        self.faults: list[Fault] = []
        """What was injected, in order."""
        self.story: list[tuple[float, str]] = []
        """What happened: seconds since the start, and words."""
        self.story_told = ""
        """The whole story, with what the groups went through, once the world is closed."""
        self.fingerprint = ""
        """A hash of all that happened, once the world is closed: the same in each run of the seed."""
        self._without = without

    @property
    def seconds(self) -> float:
        """The virtual time since the start."""
        return self.kernel.time_ns / SECOND

    def note(self, words: str) -> None:
        """Add to the story what the test wants to read there."""
        self.story.append((self.seconds, words))

    # -- who is there -------------------------------------------------------------------------------------

    async def broker(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        name: str = "broker",
        settings: Mapping[str, str] | None = None,
    ) -> SimulatedBroker:
        """Start a broker with these topics, name by number of partitions. Return it when it serves."""
        broker = SimulatedBroker(self.kernel, self.network, name, settings)
        self.brokers.append(broker)
        await self.until(lambda: broker.is_serving, virtual_seconds=START_SECONDS_MAX)
        if topics:
            await self._create(broker, topics)
        return broker

    async def cluster(
        self,
        brokers: int = 3,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> SimulatedCluster:
        """Start brokers with a shared etcd. Return them when each knows all."""
        cluster = SimulatedCluster(self.kernel, self.network, brokers, settings)
        self.brokers += cluster.brokers.values()
        await self.until(lambda: cluster.is_complete, virtual_seconds=START_SECONDS_MAX)
        if topics:
            await self._create(cluster, topics)
        return cluster

    async def _create(self, broker: SimulatedBroker | SimulatedCluster, topics: Mapping[str, int]) -> None:
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.create_topics(*(NewTopic(topic, count) for topic, count in topics.items()))

    def process(
        self, name: str, main: Main, *arguments: object, restart_seconds: float | None = RESTART_SECONDS
    ) -> App:
        """Run `main(*arguments)` as a process of its own, on a host of that name.

        Once it has ended with an error it is started again, as Kubernetes does; with None it is not.
        """
        app = App(self, name, main, arguments, restart_seconds)
        self.apps.append(app)
        return app

    # -- waiting ------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], object], virtual_seconds: float = 300.0) -> None:
        """Return once the condition holds. Raises: NotReached if it does not within that virtual time."""
        end = self.seconds + virtual_seconds
        while not condition():
            if self.seconds > end:
                raise NotReached(f"the condition did not hold within {virtual_seconds:g} virtual seconds")
            await asyncio.sleep(LOOK_SECONDS)

    # -- what happens to it -------------------------------------------------------------------------------

    @asynccontextmanager
    async def chaos(
        self,
        *,
        kill: Sequence[App] = (),
        restart: Sequence[Server] = (),
        pause: Sequence[Pausable] = (),
        pause_seconds: float = 0.0,
        cut_network: bool = False,
        fail_disks: Sequence[DiskOwner] = (),
        also: Sequence[FurtherFault] = (),
        every_seconds: float = 10.0,
    ) -> AsyncIterator[Chaos]:
        """Let faults happen within the block, from the seed; behind it all is whole and runs again.

        Processes of `kill` are killed and started again, brokers of `restart` are killed or lose their power
        and are started again, programs of `pause` (by default those of `kill`) stand still for up to
        `pause_seconds`, hosts are cut off the network. Brokers of `fail_disks` have a disk that is full, slow
        or cannot sync for a while, and die between two operations on it. `also` has faults of the test's own.
        """
        chaos = Chaos(
            self,
            kill=kill,
            restart=restart,
            pause=pause or (kill if pause_seconds else ()),
            fail_disks=fail_disks,
            pause_seconds=pause_seconds,
            cut_network=cut_network,
            also=also,
            every_seconds=every_seconds,
            without=self._without,
        )
        chaos.begin()
        try:
            yield chaos
        finally:
            chaos.end()

    # -- what happened ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Tell the story, and let go of everything."""
        lines = [*self.story, *(each for broker in self.brokers for each in broker.group_story.lines)]
        lines.sort(key=lambda each: each[0])
        self.story_told = "\n".join(f"{seconds:10.3f} s  {words}" for seconds, words in lines)
        self.kernel.note(f"{self.kernel.actions_run} actions", repr(self.kernel.random.getstate()).encode())
        self.fingerprint = self.kernel.trace.fingerprint()
        self.kernel.close()
        for broker in self.brokers:
            broker.disk.let_go()
