"""What ends a broker: each signal that asks it to stop gets a clean stop."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.interop.broker_process import COMMAND_VARIABLE, BrokerProcess


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda each: each.name)
def test_a_stop_signal_causes_a_clean_stop(tmp_path: Path, how: signal.Signals) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    assert broker.stop(how) == 0
    stopping, stopped = broker.log_lines()[-2:]
    assert f"signal={how.name}" in stopping
    assert "] stopped" in stopped


def test_a_broker_under_nohup_outlives_its_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND_VARIABLE, f"nohup {sys.executable} -m kohort.broker")
    broker = BrokerProcess(tmp_path)
    broker.start()
    os.kill(broker.pid, signal.SIGHUP)
    assert broker.stop() == 0
    assert not any("signal=SIGHUP" in line for line in broker.log_lines())
    assert any("signal=SIGTERM" in line for line in broker.log_lines())
