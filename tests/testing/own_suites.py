"""Runs the own tests of libraries on brokers of the test kit, from their checkouts.

python tests/testing/own_suites.py LIBRARY CHECKOUT [PYTEST OPTION]...

LIBRARY is faststream or quixstreams. It takes an environment that has kohort and what the library's tests
need; its address, number and settings are those that the library's tests expect of Kafka.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kohort.testing import Broker

KAFKA_PORT = 9092


def faststream(checkout: Path, options: list[str]) -> int:
    """Run what FastStream's tests of confluent-kafka and aiokafka ask a broker; they know one address."""
    folders = [f"tests/brokers/{each}" for each in ("confluent", "kafka")]
    with Broker(port=KAFKA_PORT) as broker:
        code = run([*folders, "-m", "connected or not connected", *options], checkout)
        sys.stdout.write(f"{len(broker.requests):,} of the requests that it has seen are kept\n")
    return code


def quixstreams(checkout: Path, options: list[str]) -> int:
    """Run what Quix Streams' tests ask a broker; each of their containers is a broker of the kit."""
    folders = ["tests/test_quixstreams/test_app.py", "tests/test_quixstreams/test_kafka"]
    return run([*(options or folders), "-p", "tests_on_kohort"], checkout)


def run(arguments: list[str], checkout: Path) -> int:
    """Return the exit code of pytest in the checkout."""
    path = os.pathsep.join((str(Path(__file__).parent / "plugins"), os.environ.get("PYTHONPATH", "")))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=checkout, env={**os.environ, "PYTHONPATH": path}, check=False
    ).returncode


LIBRARIES: dict[str, Callable[[Path, list[str]], int]] = {
    "faststream": faststream,
    "quixstreams": quixstreams,
}


if __name__ == "__main__":
    library, checkout, *options = sys.argv[1:]
    sys.exit(LIBRARIES[library](Path(checkout), options))
