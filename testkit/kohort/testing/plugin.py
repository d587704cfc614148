"""The pytest plugin: `kohort_broker`, `kohort_topic`, and what the broker saw where a test fails.

pytest imports this in every run where kohort is installed, so it imports nothing of kohort until a test asks.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Literal, cast

import pytest

if TYPE_CHECKING:
    from kohort.testing.broker import Broker

Scope = Literal["function", "class", "module", "package", "session"]

SCOPE_SETTING = "kohort_broker_scope"
SCOPES = ("function", "class", "module", "package", "session")
NAME_LENGTH_MAX = 200  # Of 249 that a topic may have.
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting."""
    parser.addini(
        SCOPE_SETTING, f"for how long a kohort_broker lives: {', '.join(SCOPES)}", default="function"
    )


def scope_of(fixture_name: str, config: pytest.Config) -> Scope:
    """Return the scope that the project has set. Raises: pytest.UsageError for one that there is not."""
    scope = str(config.getini(SCOPE_SETTING))
    if scope not in SCOPES:
        raise pytest.UsageError(f"{SCOPE_SETTING} = {scope}: it must be one of {', '.join(SCOPES)}")
    return cast(Scope, scope)


@pytest.fixture(scope=scope_of)
def kohort_broker() -> Iterator[Broker]:
    """A broker of the test's own, or one for all tests of the scope that `kohort_broker_scope` names."""
    from kohort.testing.broker import Broker  # noqa: PLC0415  # Only tests that use it pay for the import.

    with Broker() as broker:
        yield broker


@pytest.fixture
def kohort_topic(request: pytest.FixtureRequest, kohort_broker: Broker) -> str:
    """The name of a topic that was made for this test: with `num.partitions` partitions, and empty."""
    name = NOT_IN_NAMES.sub("-", request.node.name)[:NAME_LENGTH_MAX]
    return kohort_broker.create_topic(f"{name.strip('-.')}-{uuid.uuid4().hex[:8]}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the broker has seen to the report of a test that failed with it."""
    report = yield
    broker = getattr(item, "funcargs", {}).get("kohort_broker")
    if broker is not None and report.failed:
        report.sections.append(("kohort", broker.report()))
    return report
