"""A queue on kohort, by night on Apache Kafka, too, or on the broker that KOHORT_TEST_BOOTSTRAP names."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.client import Admin, NewTopic
from kohort.client.config import ConsumerOptions
from kohort.queues.kmq import Queue
from tests.client.conftest import BOOTSTRAP_VARIABLE, QUICK_KAFKA, running_broker
from tests.differential import apache_kafka
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until
from tests.ports import free_port
from tests.repetitions import only_by_night

BROKERS = ("kohort", pytest.param("Apache Kafka", marks=only_by_night))


@pytest.fixture(scope="module", params=BROKERS)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker listens."""
    given = os.environ.get(BOOTSTRAP_VARIABLE)
    if given:
        yield given
    else:
        with running_broker(request.param, tmp_path_factory.mktemp("broker")) as address:
            yield address


@pytest.fixture(params=BROKERS)
def mortal_broker(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[BrokerProcess | apache_kafka.ApacheKafka]:
    """A broker of the test's own, which it may kill and start again."""
    broker: BrokerProcess | apache_kafka.ApacheKafka
    if request.param == "kohort":
        broker = BrokerProcess(tmp_path, *QUICK_KAFKA)
    else:
        broker = apache_kafka.ApacheKafka(tmp_path, *QUICK_KAFKA)
    try:
        broker.start()
    except apache_kafka.MissingTool as missing:
        pytest.skip(str(missing))
    yield broker
    broker.stop()


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A new topic of two partitions."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=2))
        wait_until(lambda: name in admin.list_topics(), "every broker knows the topic")
    return name


@pytest.fixture
def queue(topic: str) -> Queue:
    """A queue of two partitions, whose records come again after four seconds."""
    return Queue(topic, message_timeout_ms=4_000, use_now_after_ms=200)


@pytest.fixture
def options(bootstrap: str) -> ConsumerOptions:
    """Settings of a member that bears a busy machine."""
    return {
        "bootstrap_servers": bootstrap,
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 500,
        "fetch_max_wait_ms": 100,
    }


@pytest.fixture(name="free_port")
def a_free_port() -> int:
    """A port that nobody listens on."""
    return free_port()
