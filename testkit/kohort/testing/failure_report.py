"""`pytest --kohort-report FILE`: collects what the brokers of failed tests saw, and writes the page.

With pytest-xdist each process sends its part with the reports of its tests, and the main one writes.
"""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from kohort.testing.cluster import Cluster
from kohort.testing.controls import BrokerControls
from kohort.testing.failure_page import page, seen_by


class FailureReport:
    """The plugin of one run of pytest."""

    def __init__(self, config: pytest.Config, path: str) -> None:
        self._is_worker = hasattr(config, "workerinput")
        self._path = Path(path)
        self._noted: list[dict[str, object]] = []  # By brokers whose block an error has ended.
        self._failures: list[dict[str, object]] = []
        BrokerControls._on_failure = self._note

    def _note(self, broker: BrokerControls) -> None:
        self._noted.append(seen_by(broker))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach what brokers saw to the report of a failed test."""
        report = yield
        noted, self._noted = self._noted, []
        if report.failed:
            seen = noted + [seen_by(each) for each in _brokers_of(item)]
            if seen:
                report.kohort_brokers = seen  # type: ignore[attr-defined]  # pytest-xdist sends it.
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a failure for the page."""
        brokers = getattr(report, "kohort_brokers", None)
        if brokers is not None:
            test = f"{report.nodeid} ({report.when})"
            self._failures.append({"test": test, "error": report.longreprtext, "brokers": brokers})

    def pytest_sessionfinish(self) -> None:
        """Write the page, also if no test has failed. Raises: OSError."""
        BrokerControls._on_failure = None
        if not self._is_worker:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(page(self._failures), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say where the page is."""
        terminalreporter.write_sep("-", f"kohort report: {self._path}")


def _brokers_of(item: pytest.Item) -> Iterator[BrokerControls]:
    """Yield the started brokers among the test's fixtures."""
    for each in getattr(item, "funcargs", {}).values():
        found = each.brokers.values() if isinstance(each, Cluster) else [each]
        for broker in found:
            if isinstance(broker, BrokerControls) and broker._core.was_started:
                yield broker
