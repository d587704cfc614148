"""A real broker on a host of the simulation: started, killed, without power, started again on its disk."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from kohort.broker.broker import Broker, running
from kohort.broker.config.load import load_config
from kohort.broker.group.events import Event
from kohort.broker.transport.addresses import Address, BrokerAddresses
from kohort.testing.simulation.disk import VirtualDisk
from kohort.testing.simulation.group_story import GroupStory
from kohort.testing.simulation.kernel import SECOND, Kernel
from kohort.testing.simulation.machine import ProcessTime, VirtualMachine
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.sockets import Sockets
from kohort.testing.simulation.trio_process import TrioProcess
from kohort.testing.simulation.trio_sockets import TrioSockets

PORT = 9092
RESTART_NS = 5 * SECOND  # A broker that has ended with an error is started again so much later.
DATA = Path("/data")


class SimulatedBroker:
    """One broker, its host and its disk, over all its lives."""

    def __init__(
        self, kernel: Kernel, network: Network, name: str, settings: Mapping[str, str] | None = None
    ) -> None:
        """Start it. `settings` are those of `server.properties`."""
        self.kernel = kernel
        self.network = network
        self.name = name
        self.host = network.host(name)
        self.disk = VirtualDisk(kernel.random.randrange)
        self.settings = dict(settings or {})
        self.lives = 0
        self._boots = 0
        self.failures: list[BaseException | None] = []
        """What has ended its lives, beside who was asked to."""
        self.group_story = GroupStory(network.name_of)
        """What the groups went through."""
        self.broker: Broker | None = None
        """The broker, while it serves."""
        self.process: TrioProcess
        self.start()

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{self.name}:{PORT}"

    @property
    def is_serving(self) -> bool:
        """Whether it is started and answers."""
        return self.broker is not None

    def start(self) -> None:
        """Begin a life on what the disk has."""
        self.lives += 1
        self.network.power_on(self.host)
        self.process = TrioProcess(self.kernel, f"{self.name}#{self.lives}", self._serve)
        self._sockets = Sockets(self.network, self.host, self.process)
        self.process.setup = TrioSockets(self._sockets).use
        life = self.process
        life.on_death[lambda: self._ended(life)] = None

    def _ended(self, life: TrioProcess) -> None:
        """Start again what could not start, or has failed, as whoever keeps a broker running does."""
        if self.failure() is not None and self.process is life:
            self.disk.lose_process(self.disk.operations)  # The operating system releases its locks.
            self.failures.append(self.failure())
            self.kernel.call_after(RESTART_NS, lambda: self._restart(life))

    def _restart(self, life: TrioProcess) -> None:
        if self.process is life:  # Nobody else has started it again.
            self.start()

    async def _serve(self) -> None:
        config = load_config(None, tuple(self.settings.items()))
        places = BrokerAddresses(Address(self.name, PORT), DATA)
        machine, clock = VirtualMachine(self._sockets, f"boot-{self._boots}"), ProcessTime(self.process)
        async with running(config, places, clock, self.disk.file_system, machine=machine) as broker:
            self.broker = broker
            then = broker.event_logger.then

            def tell(event: Event) -> None:
                self.group_story.note(self.kernel.time_ns / SECOND, event)
                then(event)

            broker.event_logger.then = tell
            try:
                await trio.sleep_forever()
            finally:
                self.broker = None

    def kill(self) -> None:
        """End the process at once, as SIGKILL does. The operating system keeps what was written."""
        self.broker = None
        self.process.kill()
        self.disk.lose_process(self.disk.operations)

    def lose_power(self) -> None:
        """Let the machine lose its power: what was not synced is there, or not, or in part."""
        self.broker = None
        self._boots += 1
        self.network.lose_power(self.host)
        self.process.kill()
        self.disk.lose_power(self.disk.operations)

    def stop(self) -> None:
        """Ask for a clean stop, as SIGTERM does."""
        self.process.cancel()

    def failure(self) -> BaseException | None:
        """Return what has ended the broker, None if nothing has."""
        result: Any = self.process.outcome
        return getattr(result, "error", None)
