"""The pages' Python does what they say: every block of the guide, and the README's first lines."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.guide import blocks
from tests.interop.broker_process import BrokerProcess

ROOT = Path(__file__).parents[2]
GUIDE, README = ROOT / "docs" / "client.md", ROOT / "README.md"
TIMEOUT_S = 120


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[str]:
    """The address of a broker that nobody has used."""
    process = BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=0")
    process.start()
    yield process.bootstrap
    process.stop()


def run_page(page: Path, bootstrap: str) -> str:
    """Return what the page's blocks print."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.client.guide", page, bootstrap],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_every_block_of_the_guide_runs(new_broker: str) -> None:
    printed = run_page(GUIDE, new_broker)
    assert printed.count("-- client.md") == len(list(blocks(GUIDE)))
    assert "to read: flights-0" in printed
    assert "to give up: flights-0" in printed
    assert "86400000" in printed
    assert "record-send-total" in printed


def test_the_readmes_first_lines_run(new_broker: str) -> None:
    printed = run_page(README, new_broker)
    assert all(carrier in printed for carrier in ("UA", "DL", "AA"))


def test_the_guide_starts_like_the_readme() -> None:
    (_, first), (_, readme) = next(blocks(GUIDE)), next(blocks(README))
    assert first == readme
    assert len([line for line in first.splitlines() if line]) <= 11


def test_every_public_name_is_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in (
        "Consumer",
        "Producer",
        "Admin",
        "RebalanceListener",
        "WorkerPool",
        "AsyncWorkerPool",
        "Assignor",
    ):
        assert re.search(rf"\b{name}\b", text), name
