"""A process of `mean_delays.py`: `python -m examples.flights.mean_delays_member ROLE BOOTSTRAP URL`."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import trio

from examples.flights import settings
from examples.flights.dataset import Flight
from examples.flights.ledger import CarrierTally
from examples.flights.members import ROOT
from kohort.client import ConsumerRecord
from kohort.client.config import ConsumerOptions
from kohort.queues.region import Region, RegionCoordinator, RegionMember

COORDINATOR = "coordinator"
MEMBERS = ("a", "b", "c")
PAUSE_EVERY, PAUSE_SECONDS = 100, 0.03  # Slower than it could: there is something left when one is killed.
decode = msgspec.json.Decoder(dict[str, CarrierTally]).decode


def region_of(states_url: str) -> Region:
    """Return the region that all processes are of. A kill is a failure, and there are many in a row."""
    return Region(
        "mean-delays",
        members=len(MEMBERS),
        period_ms=1_000,
        drain_timeout_ms=10_000,
        consecutive_resets_max=1_000,
        states_url=states_url,
    )


def take(tallies: dict[str, CarrierTally], flight: Flight) -> None:
    """Count one flight."""
    tally = tallies.setdefault(flight.carrier, CarrierTally())
    tally.flights += 1
    tally.departure.add(flight.departure_delay)
    tally.arrival.add(flight.arrival_delay)


class MeanDelays:
    """The operator: what it knows of the flights that it was given is its state."""

    def __init__(self) -> None:
        self._tallies: dict[str, CarrierTally] = {}
        self._decoder = msgspec.json.Decoder(Flight)
        self._count = 0

    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        """Count a flight."""
        take(self._tallies, self._decoder.decode(record.value or b""))
        self._count += 1
        if self._count % PAUSE_EVERY == 0:
            await anyio.sleep(PAUSE_SECONDS)

    def save(self, sequence_id: int) -> bytes:
        """Return the tallies as JSON."""
        return msgspec.json.encode(self._tallies)

    def restore(self, state: bytes | None) -> None:
        """Have these tallies."""
        self._tallies = decode(state or b"{}")


class RoleProcess:
    """A member or the coordinator in a process of its own, its standard error in a file."""

    def __init__(self, role: str, bootstrap: str, states_url: str, folder: Path) -> None:
        self._role = role
        self._log_path = folder / f"{role}.log"
        command = [sys.executable, "-m", "examples.flights.mean_delays_member", role, bootstrap, states_url]
        with self._log_path.open("a") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def check(self) -> None:
        """Raise RuntimeError with its last words if it ended by itself."""
        if self._process.poll() is not None:
            tail = "\n".join(self._log_path.read_text().splitlines()[-5:])
            raise RuntimeError(f"{self._role} ended with {self._process.returncode}: {tail}")

    def kill(self) -> None:
        """Kill it with SIGKILL: it saves nothing, and leaves no group."""
        self._process.kill()
        self._process.wait()


async def main() -> None:
    """Run until killed."""
    role, bootstrap, states_url = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    options: ConsumerOptions = {
        "bootstrap_servers": bootstrap,
        "session_timeout_ms": settings.SESSION_TIMEOUT_MS,
        "heartbeat_interval_ms": settings.HEARTBEAT_INTERVAL_MS,
    }
    region = region_of(states_url)
    if role == COORDINATOR:
        await RegionCoordinator(region, **options).run()
    else:
        await RegionMember(region, role, MeanDelays(), topics=[settings.TOPIC], **options).run()


if __name__ == "__main__":
    trio.run(main)
