"""A queue on kohort, by night on Apache Kafka, too. `--on` or KOHORT_TEST_BOOTSTRAP name one broker."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

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

BROKERS = {"kohort": "kohort", "kafka": "Apache Kafka"}
SCOPES: dict[str, Literal["module", "function"]] = {"bootstrap": "module", "mortal_broker": "function"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run of these tests name its broker: `pytest tests/queues/test_region_slow.py --on kafka`."""
    parser.addoption("--on", choices=list(BROKERS), help="run the tests of queues on this broker alone")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on the broker that is named, or on kohort by day, and on both by night."""
    named = metafunc.config.getoption("--on", None)
    both = [BROKERS["kohort"], pytest.param(BROKERS["kafka"], marks=only_by_night)]
    for fixture, scope in SCOPES.items():
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, [BROKERS[named]] if named else both, indirect=True, scope=scope)


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker listens."""
    given = os.environ.get(BOOTSTRAP_VARIABLE)
    if given:
        yield given
    else:
        with running_broker(request.param, tmp_path_factory.mktemp("broker")) as address:
            yield address


@pytest.fixture
def mortal_broker(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[BrokerProcess | apache_kafka.ApacheKafka]:
    """A broker of the test's own, which it may kill and start again."""
    broker: BrokerProcess | apache_kafka.ApacheKafka
    if request.param == BROKERS["kohort"]:
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
