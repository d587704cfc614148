"""Ports that tests give to servers: free, and never given twice."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests import ports

GIVE_40 = """
import sys
from tests import ports
ports.PORTS = range(20_000, 20_100)
print(*[ports.free_port() for _ in range(40)], flush=True)
sys.stdin.read()
"""


def test_a_port_is_given_once_and_not_to_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "PORTS", range(20_000, 20_100))
    command = [sys.executable, "-c", GIVE_40]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        given = [int(each) for each in other.stdout.readline().split()]
        here = [ports.free_port() for _ in range(20)]
        other.communicate()
    assert len({*given, *here}) == 60


def test_a_port_that_a_server_listens_on_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
        with pytest.raises(AssertionError, match="no port is free"):
            ports.free_port()
