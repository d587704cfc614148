"""Tests that import Spark are skipped, with the reason, where Spark is not installed."""

from importlib.util import find_spec
from pathlib import Path

import pytest

MISSING = "Spark is not installed; make test-spark installs it"


class SparkIsMissing(pytest.Module):
    """A file of tests that cannot be imported here."""

    def collect(self) -> list[pytest.Item]:
        """Skip the file. Raises: Skipped."""
        pytest.skip(MISSING, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Return a module that is skipped where Spark is not installed; None leaves the file to pytest."""
    if find_spec("pyspark") is None:
        return SparkIsMissing.from_parent(parent, path=module_path)
    return None
