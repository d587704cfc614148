"""What holds for every test of every room."""

from collections.abc import Generator

import pytest

from tests import left_open


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Close what the test has left open once its fixtures have ended. Fails it where too much stays open."""
    yield
    left_open.let_go()
    complaint = left_open.too_many_descriptors()
    if complaint:
        pytest.fail(complaint, pytrace=False)
