"""Run kohort's client and command line against Apache Kafka's broker: `python -m tests.on_kafka [PATH ...]`.

What fails here and passes with kohort's own broker is a difference between the two.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.differential.apache_kafka import ApacheKafka, MissingTool

PATHS = ("tests/client", "tests/cli")
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=500",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)


def main(paths: list[str]) -> int:
    """Return pytest's exit status; 0 with a word where there is no Java."""
    with tempfile.TemporaryDirectory() as folder:
        broker = ApacheKafka(Path(folder), *SETTINGS)
        try:
            broker.start()
        except MissingTool as missing:
            sys.stdout.write(f"skipped: {missing}\n")
            return 0
        try:
            named = {**os.environ, "KOHORT_TEST_BOOTSTRAP": "{}:{}".format(*broker.address)}
            command = [sys.executable, "-m", "pytest", *(paths or PATHS)]
            return subprocess.run(command, env=named, check=False).returncode
        finally:
            broker.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
