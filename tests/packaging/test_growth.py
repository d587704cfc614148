"""The benchmarks that ask a broker in a process: every question is answered, and figures become a table."""

from __future__ import annotations

import resource
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from benchmarks import flames, growth
from benchmarks.parts.measured_broker import MeasuredBroker

from tests.interop.waiting import wait_until

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300.0
RUN = {
    "date": "2026-11-23T12:00Z",
    "machine": {"cores": 2, "processor": "a CPU", "memory_gib": 24, "kernel": "6", "python": "3.11"},
    "version": "1234567",
    "load": 0.5,
}


def test_every_kind_of_growth_is_measured_with_a_kill_between() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    done = subprocess.run(
        [sys.executable, "benchmarks/growth.py", "--largest", "10", "--log-bytes", "2e6"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    for kind in growth.KINDS:
        assert f"\n| {kind} | " in done.stdout
    for row, kinds in (("for it", 1), ("after writing", 2), ("at rest", 2)):  # Groups; topics and log.
        assert done.stdout.count(f"\n| ms of CPU {row} | ") == kinds
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


@pytest.mark.parametrize("name", flames.PATHS)
def test_every_hot_path_can_be_repeated(name: str, tmp_path: Path) -> None:
    broker = MeasuredBroker(tmp_path)
    try:
        ask = flames.PATHS[name](broker)
        answered = len(ask())
        before = broker.cpu_seconds()
        assert len(ask()) == answered > 1
        # The kernel counts what a thread has used at its ticks, and when the thread begins to wait.
        wait_until(lambda: broker.cpu_seconds() > before, "the broker's CPU time is counted")
    finally:
        broker.close()


def test_sizes_are_decades_up_to_the_last() -> None:
    assert growth.decades(10, 9_500) == [10, 100, 1_000, 9_500]
    assert growth.decades(1, 1) == [1]


def test_the_table_compares_the_largest_size_with_the_smallest() -> None:
    figures = {"us a heartbeat": {"10": 8.0, "1000": 12.0, "100": 9.0}}
    assert list(growth.table("groups", figures)) == [
        "| groups | 10 | 100 | 1k | last / first |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| us a heartbeat | 8.0 | 9.0 | 12.0 | 1.50 |",
    ]


def test_the_page_has_of_each_kind_the_newest_run_that_measured_it() -> None:
    def run(**figures: dict[str, dict[str, float]]) -> dict[str, object]:
        return {**RUN, "figures": figures}

    both = run(groups={"us a heartbeat": {"10": 8.0}}, log={"us a Fetch at the end": {"1000000": 20.0}})
    newest = growth.newest([both, run(groups={"us a heartbeat": {"10": 7.0}})])
    text = "\n".join(growth.page(newest))
    assert "| us a heartbeat | 7.0 | 1.00 |" in text
    assert "| us a Fetch at the end | 20.0 | 1.00 |" in text
    assert ET.fromstring(growth.picture(newest)).tag.endswith("svg")
