"""A broker process for the client library, or the one that KOHORT_TEST_BOOTSTRAP names."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kohort.client import Admin, NewTopic
from kohort.client.connection import Connection
from tests.differential import apache_kafka
from tests.interop.broker_process import BrokerProcess

BOOTSTRAP_VARIABLE = "KOHORT_TEST_BOOTSTRAP"
QUICK = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=500",
    "offsets.topic.replication.factor=1",
)
QUICK_KAFKA = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=500",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "transaction.state.log.num.partitions=1",
)


@contextmanager
def running_broker(name: str, folder: Path) -> Iterator[str]:
    """Where the broker of that name, "kohort" or "Apache Kafka", listens meanwhile."""
    if name == "kohort":
        own = BrokerProcess(folder, *QUICK)
        own.start()
        yield own.bootstrap
        own.stop()
    else:
        with apache_kafka.running(folder, *QUICK_KAFKA) as address:
            yield address


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of kohort's, which a test may restart."""
    process = BrokerProcess(tmp_path_factory.mktemp("client"), *QUICK)
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the broker listens."""
    given = os.environ.get(BOOTSTRAP_VARIABLE)
    if given:
        return given
    process = request.getfixturevalue("broker")
    assert isinstance(process, BrokerProcess)
    return process.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> Callable[[int], str]:
    """Make a new topic with so many partitions."""

    def make(partitions: int) -> str:
        name = f"topic-{uuid.uuid4().hex[:8]}"
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(NewTopic(name, partitions=partitions))
        return name

    return make


@pytest.fixture
def group() -> str:
    """A group that nobody has used."""
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["brokers add partitions", "the client adds partitions"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both levels of transaction.version: of a cluster that has it not, the client hears nothing of it."""
    name: str = request.param
    if name != "brokers add partitions":
        monkeypatch.setattr(Connection, "finalized_level", lambda self, feature: 0)
    return name


@pytest.fixture
def transactional_id() -> str:
    """One that nobody has used."""
    return f"id-{uuid.uuid4().hex[:8]}"
