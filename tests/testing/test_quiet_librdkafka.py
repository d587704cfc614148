"""What docs/guides says of a confluent-kafka client that outlives its broker."""

from __future__ import annotations

import subprocess
import sys

import pytest

CLIENT = """\
import sys
from confluent_kafka import KafkaError, Producer
from kohort.testing import Broker

told = []
with Broker(topics=["orders"]) as broker:
    settings = {"bootstrap.servers": broker.bootstrap, "error_cb": lambda error: told.append(error.code())}
    producer = Producer({**settings, **eval(sys.argv[1])})
    producer.produce("orders", b"pizza")
    assert producer.flush(10) == 0
while KafkaError._ALL_BROKERS_DOWN not in told:
    producer.poll(0.1)
"""


@pytest.mark.parametrize("more, is_quiet", [({}, False), ({"log_level": 0}, True)], ids=["loud", "quiet"])
def test_a_client_that_outlives_its_broker_writes_lines_unless_it_is_told_not_to(
    more: dict[str, int], is_quiet: bool
) -> None:
    command = [sys.executable, "-c", CLIENT, repr(more)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stderr == "") is is_quiet
    assert ("|FAIL|" in done.stderr) is not is_quiet  # It is refused, or was disconnected.
