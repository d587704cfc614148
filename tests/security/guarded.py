"""A broker that wants to know who comes, at a listener with TLS and one without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from tests.security.secured import Secured

PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD = "alice", "alice's secret"
PLAIN_USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_{USER}="{PASSWORD}" user_bob="bob-secret";'
)


class Guarded(Secured):
    """The broker, with its certificates and its users."""

    def __init__(self, folder: Path, *settings: str) -> None:
        # Many wrong passwords come from this one address, and right ones behind them.
        super().__init__(folder, "kohort.lockout.max.ms=0", *settings)
        self.broker.options = tuple(
            word for protocol in PROTOCOLS for word in ("--listen", f"{protocol}://127.0.0.1:0")
        )

    def at(self, protocol: str) -> str:
        """Return where a protocol is spoken."""
        for place in self.broker.bootstrap.split(","):
            before, _, address = place.rpartition("://")
            if (before or "PLAINTEXT") == protocol:
                return address
        raise KeyError(protocol)

    def metric(self, name: str) -> float:
        """Return the value of a metric that has no labels."""
        with urlopen(f"http://{self.broker.http}/metrics", timeout=60) as answer:
            lines: list[str] = answer.read().decode().splitlines()
        [value] = [line.split()[1] for line in lines if line.startswith(f"{name} ")]
        return float(value)


@contextmanager
def guarded(folder: Path, *settings: str) -> Iterator[Guarded]:
    """Serve within the block."""
    made = Guarded(folder, *settings)
    made.broker.start()
    try:
        yield made
    finally:
        made.broker.stop()
