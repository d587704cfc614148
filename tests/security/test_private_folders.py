"""Other users of the machine read nothing in the data folder: records, keys of passwords, secrets."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.client import Producer
from tests.interop.broker_process import BrokerProcess
from tests.workers.workers_process import WorkersProcess


@pytest.fixture(params=[0o000, 0o022], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def use(broker: BrokerProcess) -> None:
    """Make a topic with a record; stop, so that all files are there."""
    broker.start()
    try:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b"secret", key=b"secret").result()
    finally:
        assert broker.stop() == 0


def open_to_others(folder: Path) -> list[str]:
    """Return what in the folder, or the folder, is more than its owner's."""
    found = [folder, *folder.rglob("*")]
    assert len(found) > 5
    return [
        f"{each.relative_to(folder)} {stat.S_IMODE(each.stat().st_mode):o}"
        for each in found
        if stat.S_IMODE(each.stat().st_mode) != (0o700 if each.is_dir() else 0o600)
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_files_are_private_for_any_umask(tmp_path: Path, umask: int, workers: int) -> None:
    broker = WorkersProcess(tmp_path, workers)
    use(broker)
    assert open_to_others(broker.data) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_that_others_could_read_is_closed_to_them_at_the_start(tmp_path: Path, workers: int) -> None:
    broker = WorkersProcess(tmp_path, workers)
    use(broker)
    for each in [broker.data, *broker.data.rglob("*")]:
        each.chmod(0o755 if each.is_dir() else 0o644)
    outside = tmp_path / "outside"
    outside.write_text("of somebody else")
    outside.chmod(0o644)
    (broker.data / "link").symlink_to(outside)
    use(broker)
    (broker.data / "link").unlink()
    assert open_to_others(broker.data) == []
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644
    assert any("closed to them now" in line for line in broker.log_lines())


def test_a_shared_folder_is_not_changed_and_reported(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.data.mkdir(mode=0o755)
    (broker.data / "letters").write_text("of somebody else")
    use(broker)
    assert stat.S_IMODE(broker.data.stat().st_mode) == 0o755
    assert any("may read the data folder" in line for line in broker.log_lines())
    assert stat.S_IMODE((broker.data / "meta.properties").stat().st_mode) == 0o600


def test_an_empty_folder_is_closed_to_others(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.data.mkdir(mode=0o755)
    (broker.data / "lost+found").mkdir(mode=0o700)
    use(broker)
    assert open_to_others(broker.data) == []
