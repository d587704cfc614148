"""The store of an observer, and an observer that has reached no cluster yet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.observe.observer import Observer, Target
from kohort.observe.pace import Limits
from kohort.observe.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return an open store, and close it after the test."""
    found = Store(tmp_path / "o.db")
    yield found
    found.close()


@pytest.fixture
def observer(tmp_path: Path) -> Observer:
    """Return an observer of a cluster that cannot be reached."""
    servers = {"bootstrap_servers": "127.0.0.1:1"}
    return Observer(Target("", servers, servers), tmp_path / "o.db", Limits())  # type: ignore[arg-type]  # They are both.
