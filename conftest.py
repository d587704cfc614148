"""What holds for every test of every room."""

import signal
from collections.abc import Generator
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from tests import left_open

pytest_plugins = ["tests.not_run"]

# How long an example takes says how busy the machine is, and messages have many fields.
UNCHECKED = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile("kohort", deadline=None, suppress_health_check=UNCHECKED)
settings.load_profile("kohort")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and whatever tests start would inherit it: no interrupt would end
    # what they are to end.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what puts something else in the place of a compiled method, where modules are compiled."""
    if item.get_closest_marker("interpreted"):
        found = find_spec("kohort.broker.transport.peer")
        if found is None or not str(found.origin).endswith(".py"):
            pytest.skip("compiled classes stay as they are")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Close what the test has left open once its fixtures have ended. Fails it where too much stays open."""
    yield
    left_open.let_go()
    complaint = left_open.too_many_descriptors()
    if complaint:
        pytest.fail(complaint, pytrace=False)
