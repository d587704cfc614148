"""What holds at the moment when the broker says that it is ready."""

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from kohort.broker import main
from kohort.broker.config import BrokerConfig
from kohort.broker.transport.addresses import Address


async def test_http_is_ready_when_the_ready_line_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = trio.Event()

    def connect(kafka: Sequence[Address], http: Address, folder: Path, registry: None) -> None:
        socket.create_connection((http.host, http.port), timeout=1).close()
        said.set()

    monkeypatch.setattr(main, "say_listening", connect)
    options = main.parse(
        ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    )
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(main.serve, options, BrokerConfig())
            await said.wait()
            nursery.cancel_scope.cancel()
