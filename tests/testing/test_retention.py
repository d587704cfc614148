"""What expires goes when a test moves time on, however often and however quickly it does so."""

import pytest

from kohort.client import Producer
from kohort.testing import Broker

SETTINGS = {
    "log.retention.ms": 600_000,
    "log.segment.bytes": 1_048_576,
    "log.message.timestamp.type": "LogAppendTime",
}


def fill(broker: Broker) -> None:
    """Write three segments. Retention may delete all but the last."""
    with Producer(bootstrap_servers=broker.bootstrap, batch_size=300_000) as producer:
        for _ in range(12):
            producer.send("orders", b"x" * 200_000).result()


@pytest.mark.parametrize("steps", [(3_600.0,), (60.0, 3_600.0), (1.0, 31.0, 3_600.0), (600.0,) * 6])
def test_records_that_expired_are_gone_when_time_has_passed(steps: tuple[float, ...]) -> None:
    with Broker(topics=["orders"], **SETTINGS) as broker:
        fill(broker)
        assert len(broker.records("orders")) == 12
        for seconds in steps:
            broker.clock.advance(seconds)
        assert broker.records("orders") == ()
