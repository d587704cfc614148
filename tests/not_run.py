"""Tests that a run has not reached, since a worker of pytest-xdist ended before its time, count as failed.

Nothing else is a reason, but for Ctrl-C and `--maxfail`: there somebody wanted the run to end.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

LAST_FAILED = "cache/lastfailed"
"""Where pytest's cache has the tests that failed."""
CRASHED = "cache/crashed"
"""Where it has the tests whose workers ended."""
BY_XDIST = "???"
"""What pytest-xdist says of when a test ended its worker."""


class NotRun:
    """The tests of one run that have no result yet, as the process that started the workers sees them."""

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}
        self._is_interrupted = False
        self._crashed_tests: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Each worker has collected the same tests."""
        if not self._waiting:
            self._waiting = dict.fromkeys(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that has begun has a result, one that ends its worker too."""
        self._waiting.pop(report.nodeid, None)
        if report.when == BY_XDIST:
            self._crashed_tests.append(report.nodeid)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Ctrl-C, or the end of a run for another reason, which is `Session.Interrupted`."""
        self._is_interrupted = excinfo.type is KeyboardInterrupt

    def _has_unreached(self, config: pytest.Config) -> bool:
        return bool(self._waiting) and not (self._is_interrupted or config.getoption("maxfail"))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Add the tests that did not run to the failed tests, which pytest has already written."""
        if self._has_unreached(session.config) and session.config.cache is not None:
            failed = session.config.cache.get(LAST_FAILED, {})
            session.config.cache.set(LAST_FAILED, failed | dict.fromkeys(self._waiting, True))
            session.config.cache.set(CRASHED, self._crashed_tests)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        """Say how many there are."""
        if self._has_unreached(config):
            count = len(self._waiting)
            terminalreporter.write_line(f"a worker crashed: {count} tests did not run and count as failed")


def pytest_configure(config: pytest.Config) -> None:
    """Begin with no tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(NotRun())
