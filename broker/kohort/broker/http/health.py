"""What makes a broker not ready beside its partitions and groups: its parts, its loop and its disk."""

from typing import NamedTuple

from kohort.broker.partitions.flusher import Flusher
from kohort.broker.runtime.disk_space import DiskSpace
from kohort.broker.runtime.loop_lag import LoopLag
from kohort.broker.runtime.supervisor import Part, Supervisor
from kohort.storage.journal import Journal

FLUSH_SECONDS_MAX = 30.0


class Health(NamedTuple):
    """The parts of a broker that tell how they fare."""

    supervisor: Supervisor
    loop_lag: LoopLag
    disk: DiskSpace
    flusher: Flusher
    journal: Journal

    @property
    def tasks(self) -> list[Part]:
        """Every background task, and the loop."""
        return self.supervisor.parts

    def reasons(self) -> list[str]:
        """Return in words what is wrong; nothing where all is well."""
        found = [self.loop_lag.reason(), *self.supervisor.reasons(), self.disk.reason()]
        if self.journal.failure is not None:
            found.append(f"the journal failed: {self.journal.failure}")
        seconds = self.flusher.longest_seconds
        if seconds > FLUSH_SECONDS_MAX:
            found.append(f"a flush has been under way for {seconds:.0f} s: the disk hangs")
        return [reason for reason in found if reason is not None]
