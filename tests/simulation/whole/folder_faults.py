"""A bad spot on a disk: for a while the files of one folder can be neither opened nor synced."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from kohort.testing.simulation.chaos import FurtherFault
from kohort.testing.simulation.endings import Endings
from kohort.testing.simulation.simulated_broker import DATA, SimulatedBroker

SECONDS_MAX = 20.0
FOLDERS_AT_ONCE_MAX = 3


def folders_fail(brokers: Sequence[SimulatedBroker]) -> tuple[FurtherFault, Callable[[], None]]:
    """Return the fault, and what ends all of them."""
    endings = Endings(brokers[0].kernel)

    def fail(random: Random) -> str | None:
        broker, seconds = random.choice(brokers), random.uniform(1, SECONDS_MAX)
        files = broker.disk.file_system
        names = sorted(each for each in files.list_directory(DATA) or [] if files.size(DATA / each) is None)
        if not names:
            return None
        failing = random.sample(names, min(len(names), random.randrange(1, FOLDERS_AT_ONCE_MAX + 1)))
        for name in failing:
            folder = str(DATA / name)
            broker.disk.fail_folder(folder)
            endings.end_later(seconds, (broker, folder), partial(broker.disk.mend_folder, folder))
        return f"{broker.name} has a bad spot on its disk for {seconds:.1f} s: {', '.join(failing)}"

    return fail, endings.end_all
