"""The pytest plugin: fixtures for a broker, a cluster and a topic, and reports of failed tests.

pytest imports this in every run where kohort is installed, so it imports kohort only when a test uses a
fixture.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Literal, cast

import pytest

if TYPE_CHECKING:
    from kohort.testing.broker import Broker
    from kohort.testing.cluster import Cluster

Scope = Literal["function", "class", "module", "package", "session"]

SCOPE_SETTINGS = {"kohort_broker": "kohort_broker_scope", "kohort_cluster": "kohort_cluster_scope"}
BROKERS_SETTING = "kohort_cluster_brokers"
REPORT_OPTION = "--kohort-report"
SCOPES = ("function", "class", "module", "package", "session")
NAME_LENGTH_MAX = 200  # Of 249 that a topic may have.
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings."""
    for fixture, setting in SCOPE_SETTINGS.items():
        parser.addini(setting, f"the scope of the fixture {fixture}: {', '.join(SCOPES)}", default="function")
    parser.getgroup("kohort").addoption(
        "--kohort-seed", type=int, default=None, metavar="N", help="run simulated tests with this seed alone"
    )
    parser.getgroup("kohort").addoption(
        REPORT_OPTION, default=None, metavar="FILE", help="write a page about failed tests: what brokers saw"
    )
    parser.addini(BROKERS_SETTING, "the number of brokers of the fixture kohort_cluster", default="3")


def pytest_configure(config: pytest.Config) -> None:
    """Check the settings before the collection. Raises: pytest.UsageError."""
    for fixture in SCOPE_SETTINGS:
        scope_of(fixture, config)
    seed = config.getoption("--kohort-seed")
    if seed is not None:
        os.environ["KOHORT_SEED"] = str(seed)  # Simulated tests read it, in each process of pytest-xdist.
    path = config.getoption(REPORT_OPTION)
    if path is not None:
        from kohort.testing.failure_report import FailureReport  # noqa: PLC0415  # Few runs write the page.

        config.pluginmanager.register(FailureReport(config, str(path)), "kohort-report")


def scope_of(fixture_name: str, config: pytest.Config) -> Scope:
    """Return the scope that the project has set. Raises: pytest.UsageError for an unknown scope."""
    setting = SCOPE_SETTINGS[fixture_name]
    scope = str(config.getini(setting))
    if scope not in SCOPES:
        raise pytest.UsageError(f"{setting} = {scope}: it must be one of {', '.join(SCOPES)}")
    return cast(Scope, scope)


@pytest.fixture(scope=scope_of)
def kohort_broker() -> Iterator[Broker]:
    """A broker for each test, or for all tests in the scope `kohort_broker_scope`."""
    from kohort.testing.broker import Broker  # noqa: PLC0415  # Only tests that use it pay for the import.

    with Broker() as broker:
        yield broker


@pytest.fixture(scope=scope_of)
def kohort_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of three brokers, or of `kohort_cluster_brokers`."""
    from kohort.testing.cluster import Cluster  # noqa: PLC0415

    count = str(request.config.getini(BROKERS_SETTING))
    if not count.isdecimal() or not int(count):
        raise pytest.UsageError(f"{BROKERS_SETTING} = {count}: it must be a number from 1 on")
    with Cluster(brokers=int(count)) as cluster:
        yield cluster


@pytest.fixture(scope=lambda fixture_name, config: scope_of("kohort_broker", config))
def kohort_schema_registry(kohort_broker: Broker) -> str:
    """The URL of a schema registry, which keeps its schemas in `kohort_broker` and lives as long."""
    return kohort_broker.start_schema_registry()


@pytest.fixture
def kohort_topic(request: pytest.FixtureRequest, kohort_broker: Broker) -> str:
    """The name of a new, empty topic for this test, with `num.partitions` partitions."""
    name = NOT_IN_NAMES.sub("-", request.node.name)[:NAME_LENGTH_MAX]
    return kohort_broker.create_topic(f"{name.strip('-.')}-{uuid.uuid4().hex[:8]}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the broker's report to the report of a failed test."""
    report = yield
    used = getattr(item, "funcargs", {})
    for fixture in SCOPE_SETTINGS:
        if fixture in used and report.failed:
            report.sections.append(("kohort", used[fixture].report()))
    return report
