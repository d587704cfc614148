"""An etcd for the tests of several brokers; they are skipped, with the reason, where there is none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.testing.metadata_server import MetadataServer
from tests.cluster.etcd_binary import NoEtcd, etcd_binary
from tests.cluster.etcd_process import EtcdProcess


@pytest.fixture(scope="session")
def etcd_program() -> Path:
    """The etcd of this machine."""
    try:
        return etcd_binary()
    except NoEtcd as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def metadata_server() -> Iterator[MetadataServer]:
    """What stands for etcd in clusters of `kohort.testing`."""
    server = MetadataServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def shared_etcd(etcd_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """An etcd for all tests of a module: each keeps to keys of its own, and leaves it running."""
    process = EtcdProcess(etcd_program, tmp_path_factory.mktemp("etcd"))
    try:
        process.start()
        yield process
    finally:
        process.kill()


@pytest.fixture
def own_etcd(etcd_program: Path, tmp_path: Path) -> Iterator[EtcdProcess]:
    """An etcd that a test may kill."""
    process = EtcdProcess(etcd_program, tmp_path)
    try:
        process.start()
        yield process
    finally:
        process.kill()
