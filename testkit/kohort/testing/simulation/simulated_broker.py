"""A real broker on a host of the simulation: started, killed, without power, started again on its disk."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import trio

from kohort.broker.broker import Broker, running
from kohort.broker.config.load import load_config
from kohort.broker.group.events import Event
from kohort.broker.transport.addresses import Address, BrokerAddresses
from kohort.storage import StorageError
from kohort.testing.simulation.disk import VirtualDisk
from kohort.testing.simulation.group_story import GroupStory
from kohort.testing.simulation.kernel import MILLISECOND, SECOND, Kernel
from kohort.testing.simulation.machine import ProcessTime, VirtualMachine
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.program import Program
from kohort.testing.simulation.trio_process import TrioProcess
from kohort.testing.simulation.trio_sockets import put_on_network

PORT = 9092
RESTART_SECONDS = 5.0
DATA = Path("/data")


class SimulatedBroker(Program[TrioProcess]):
    """One broker, its host and its disk, over all its lives."""

    def __init__(
        self, kernel: Kernel, network: Network, name: str, settings: Mapping[str, str] | None = None
    ) -> None:
        """Start it. `settings` are those of `server.properties`."""
        super().__init__(kernel, network, name, RESTART_SECONDS)
        self.disk = VirtualDisk(kernel.random.randrange)
        self.settings = dict(settings or {})
        self._boots = 0
        self._die_now: Callable[[], None] | None = None  # While it is as good as dead.
        self.disk.tell_syncs(self._take_time)
        self.disk.tell_operations(self._note_operation)
        self.group_story = GroupStory(network.name_of)
        """What the groups went through."""
        self.broker: Broker | None = None
        """The broker, while it serves."""
        self.failed_starts: list[BaseException] = []
        """Why lives ended before the broker served: its disk was full, or etcd did not answer."""
        self._has_served = False  # In this life.
        self.start()

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{self.name}:{PORT}"

    @property
    def is_serving(self) -> bool:
        """Whether it is started and answers."""
        return self.broker is not None

    def begin(self) -> TrioProcess:
        """Return a process that runs the broker on what the disk has."""
        self.host.is_silent, self._die_now = False, None
        self.disk.begin_process()
        self._has_served = False
        process = TrioProcess(self.kernel, f"{self.name}#{self.lives}", self._serve)
        self._sockets = put_on_network(process, self.network, self.host)
        return process

    async def _serve(self) -> None:
        config = load_config(None, tuple(self.settings.items()))
        places = BrokerAddresses(Address(self.name, PORT), DATA)
        machine, clock = VirtualMachine(self._sockets, f"boot-{self._boots}"), ProcessTime(self.process)
        async with running(config, places, clock, self.disk.file_system, machine=machine) as broker:
            self.broker = broker
            self._has_served = True
            then = broker.event_logger.then

            def tell(event: Event) -> None:
                self.group_story.note(self.kernel.time_ns / SECOND, event)
                then(event)

            broker.event_logger.then = tell
            try:
                await trio.sleep_forever()
            finally:
                self.broker = None

    def failed(self, error: BaseException) -> None:
        """Note that an error has ended a life. A start that failed for its disk or for etcd is no failure."""
        group = error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", [error])
        if not self._has_served and group.split(StorageError)[1] is None:
            self.failed_starts.append(error)
        else:
            super().failed(error)

    def kill(self) -> None:
        """End the process at once, as SIGKILL does. The operating system keeps what was written."""
        self.broker = None
        super().kill()

    def lose_power(self) -> None:
        """Let the machine lose its power: what was not synced is there, or not, or in part."""
        self.broker = None
        self._boots += 1
        super().lose_power()
        self.disk.lose_power(self.disk.operations)

    def die_at_operation(self, operation: int, *, without_power: bool) -> None:
        """Kill the process, or the machine, before a later operation on its disk: 0 is the next one.

        What comes behind that operation does not happen: nothing that is sent arrives, nothing is written.
        """
        life = self.process

        def die() -> None:
            self.host.is_silent = True
            self._die_now = partial(self._die, self.disk.operations, without_power)
            self.kernel.call_after(0, lambda: self.live_on() if self.process is life else None)

        self.disk.interrupt_at(operation, die)

    def live_on(self) -> None:
        """Take back what `die_at_operation` has ordered. Where the operation has come, it dies now."""
        self.disk.file_system.interrupt = None
        if self._die_now is not None:
            self._die_now()

    def _die(self, operations: int, without_power: bool) -> None:
        self.host.is_silent, self._die_now = False, None
        if without_power:
            self.disk.lose_process(operations)
            self.lose_power()
        else:
            self.kill()
            self.disk.lose_process(operations)

    def _note_operation(self, words: str, data: bytes) -> None:
        self.kernel.note(f"{self.name} disk {words}", data)

    def _take_time(self) -> None:
        if self.disk.latency_ms <= 1:
            return
        time_ns = self.kernel.random.randrange(self.disk.latency_ms * MILLISECOND)
        if self.kernel.work is not None:
            self.kernel.work.slept_ns += time_ns
        else:
            self.process.pause(time_ns)  # Its loop waits for the disk.

    def stop(self) -> None:
        """Ask for a clean stop, as SIGTERM does."""
        self.process.cancel()
