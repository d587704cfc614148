"""Three members of the etcd that the cluster's tests use as well."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import etcd_program
from tests.cluster.etcd_process import EtcdMembers

__all__ = ["etcd_members", "etcd_program"]


@pytest.fixture
def etcd_members(etcd_program: Path, tmp_path: Path) -> Iterator[EtcdMembers]:
    """Three members, of which a test may kill one at a time."""
    (tmp_path / "etcd").mkdir()
    members = EtcdMembers(etcd_program, tmp_path / "etcd")
    try:
        members.start()
        yield members
    finally:
        members.kill()
