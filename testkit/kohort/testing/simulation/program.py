"""A program on a host of the simulation, over all its lives: it is killed, loses power and starts again."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from kohort.testing.simulation.kernel import SECOND, Handle, Kernel, Process
from kohort.testing.simulation.network import Network

P = TypeVar("P", bound=Process)


class Program(ABC, Generic[P]):
    """What runs on one host. A life is a process."""

    def __init__(
        self, kernel: Kernel, network: Network, name: str, restart_seconds: float | None = None
    ) -> None:
        """`restart_seconds` after a life has failed another one begins; with None it does not."""
        self.kernel = kernel
        self.network = network
        self.name = name
        self.host = network.host(name)
        self.lives = 0
        self.failures: list[BaseException] = []
        """The errors that have ended lives."""
        self.process: P
        self._restart_seconds = restart_seconds
        self._next_life: Handle | None = None

    @abstractmethod
    def begin(self) -> P:
        """Return the process of a new life."""

    def failure(self) -> BaseException | None:
        """Return the error that has ended the process, None if there is none."""
        return self.process.error

    def failed(self, error: BaseException) -> None:
        """Note that an error has ended a life."""
        self.failures.append(error)

    def restarted(self) -> None:  # Most have nothing to tell.
        """Note that a new life follows one that failed. For subclasses."""

    def start(self) -> None:
        """Begin a life. Raises: RuntimeError while one goes on."""
        if self.lives and self.is_running:
            raise RuntimeError(f"{self.name} runs already")
        self.lives += 1
        self.network.power_on(self.host)
        self.process = life = self.begin()
        life.on_death[lambda: self._ended(life)] = None

    def _ended(self, life: Process) -> None:
        error = self.failure() if self.process is life else None
        if error is None:
            return
        self.failed(error)
        if self._restart_seconds is not None:
            delay_ns = int(self._restart_seconds * SECOND)
            self._next_life = self.kernel.call_after(delay_ns, lambda: self._restart(life))

    def _restart(self, life: Process) -> None:
        if self.process is life:  # Nobody else has started it again.
            self.start()
            self.restarted()

    @property
    def is_running(self) -> bool:
        """Whether its process has neither ended nor been killed."""
        return self.process.alive

    def kill(self) -> None:
        """End the process at once, as SIGKILL does. A restart that was to come does not."""
        if self._next_life is not None:
            self._next_life.cancel()
        self.process.kill()

    def lose_power(self) -> None:
        """Let the host lose its power."""
        self.network.lose_power(self.host)
        Program.kill(self)

    def pause(self, seconds: float) -> None:
        """Let the process stand still: a long garbage collection, a stopped machine."""
        self.process.pause(int(seconds * SECOND))
