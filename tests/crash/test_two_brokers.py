"""Two brokers on one data folder: the second says in one line that it cannot, and the first serves on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.interop.broker_process import BrokerProcess

TIMEOUT_S = 30


def test_the_second_is_refused_and_the_first_serves_on(tmp_path: Path) -> None:
    first = BrokerProcess(tmp_path)
    first.start()
    try:
        command = [sys.executable, "-m", "kohort.broker", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        second = subprocess.run(
            [*command, "--data", str(first.data)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert second.returncode == 1
        assert second.stdout == ""
        assert second.stderr.splitlines() == [
            f"kohort serve: {first.data} is in use by another process: stop it, or take another folder"
        ]
        assert AdminClient({"bootstrap.servers": first.bootstrap}).list_topics(timeout=TIMEOUT_S).brokers
        first.kill()
        first.start()  # A lock of a process that is gone is in nobody's way.
        assert first.stop() == 0
    finally:
        first.kill()
