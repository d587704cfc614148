"""An earlier version to upgrade from, and an etcd; without one tests are skipped with the reason."""

import pytest

from tests.cluster.conftest import etcd_program, shared_etcd
from tests.upgrade.old_version import REVISIONS, NoOldVersion, old_python

__all__ = ["etcd_program", "old_command", "shared_etcd"]


@pytest.fixture(params=REVISIONS)
def old_command(request: pytest.FixtureRequest) -> str:
    """The command that starts a broker of an earlier version."""
    try:
        return f"{old_python(request.param)} -m kohort.broker"
    except NoOldVersion as reason:
        pytest.skip(str(reason))
