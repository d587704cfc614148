"""A data folder of an earlier version under this version, and under the earlier one again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.storage import OsFileSystem
from kohort.storage.verify import verify_data
from tests.interop.broker_process import BrokerProcess
from tests.repetitions import only_by_night
from tests.upgrade.contents import SETTINGS, START_SECONDS_MAX, Written, found

pytestmark = only_by_night


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that a test starts in one version or the other, on one folder."""
    process = BrokerProcess(tmp_path, *SETTINGS)
    process.start_timeout_s = START_SECONDS_MAX
    yield process
    process.kill()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_a_folder_is_taken_over_and_goes_back(
    broker: BrokerProcess, old_command: str, how: signal.Signals
) -> None:
    ours = broker.command
    broker.command = old_command
    broker.start()
    written = Written(broker.bootstrap)
    written.prepare()
    written.write()
    left_open = written.leave_a_transaction_open()
    before = found(broker.bootstrap)
    for command in (ours, old_command):
        broker.command = command
        broker.restart(how)
        assert found(broker.bootstrap) == before
        written.write()
        written.end_the_open_transaction()
        before = found(broker.bootstrap)
        assert f"after the open one {written.generation}".encode() in {
            row[3] for row in before["read_committed"]["payments"]
        }
    broker.command = ours
    broker.restart(how)
    assert found(broker.bootstrap) == before
    written.finish_the_jobs()
    broker.stop()
    assert verify_data(OsFileSystem(), broker.data).problems == []
    del left_open
