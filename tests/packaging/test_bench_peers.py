"""`make bench-peers` with peers that are a few lines of shell: who is measured, what becomes of figures."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from benchmarks.parts.charts import panels, ratio_bars
from benchmarks.parts.history import write_part
from benchmarks.peers import MODES, ROWS, Column, figures, in_turns, page, ratio, table

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 120.0
BUILD = """#!/bin/sh
mkdir -p "$PEERS_HOME/bin"
cp "$(dirname "$0")/loadgen" "$PEERS_HOME/bin/loadgen"
"""
START = """#!/bin/sh
echo "start $1 $KOHORT_ARGS $KAFKA_EXTRA" >>"$PEERS_HOME/calls"
sleep 60 >/dev/null 2>&1 </dev/null &
echo "$! 127.0.0.1:$2"
"""
LOADGEN = """#!/bin/sh
echo "$1 $*" >>"$PEERS_HOME/calls"
case "$1" in
commit) echo '{"mode":"commit","variant":"simple-c1-d1","per_s":1000,"per_server_cpu_s":2000}' ;;
small) echo '{"mode":"small","variant":"inflight1","error":"it broke"}'; exit 1 ;;
esac
"""


@pytest.fixture
def peers(tmp_path: Path) -> Path:
    folder = tmp_path / "peers"
    folder.mkdir()
    for name, text in {"build.sh": BUILD, "start.sh": START, "loadgen": LOADGEN}.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def test_every_mode_has_its_own_server_and_a_failure_is_reported(peers: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    options = ["--columns", "new;lax;kfake", "--modes", "commit,small", "--short", "--keep-docs"]
    done = subprocess.run(
        [sys.executable, "benchmarks/peers.py", *options],
        cwd=ROOT,
        env={**os.environ, "PEERS": str(peers), "PEERS_HOME": str(home)},
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    calls = (home / "calls").read_text(encoding="utf-8").splitlines()
    starts = [line.split(maxsplit=2)[1:] for line in calls if line.startswith("start ")]
    assert [each[0] for each in starts] == ["kohort", "kohort", "kohort", "kohort", "kfake", "kfake"]
    assert ["log.flush.interval.messages" in each[-1] for each in starts] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]
    assert "| commits/s, 1 connection, depth 1 | 1,000 | 1,000 | 1,000 | 1.00 |" in done.stdout
    assert "new: small inflight1: it broke" in done.stderr


def test_without_a_peers_folder_the_missing_folder_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/peers.py"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "PEERS"},
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 2
    assert "PEERS names no folder" in done.stderr


def test_versions_alternate_in_both_orders() -> None:
    columns = [Column("old", "kohort", turns=3), Column("new", "kohort", turns=3), Column("kafka", "kafka")]
    names = [each.name for each in in_turns(columns)]
    assert names == ["old", "new", "kafka", "new", "old", "old", "new"]


def test_memory_of_a_group_is_the_difference_of_ten_thousand_and_a_thousand() -> None:
    lines = [
        {"mode": "groups", "variant": "g1000", "groups": 1_000, "rss_mib": 50.0, "per_s": 800.0},
        {"mode": "groups", "variant": "g10000", "groups": 10_000, "rss_mib": 150.0, "per_s": 700.0},
        {"mode": "join", "variant": "n500", "error": "not settled"},
    ]
    found = figures(lines)
    assert found["KiB of memory per group of 2"] == pytest.approx(10.24)
    assert found["groups of 2 formed/s, 10,000"] == 700.0
    assert not any("500" in name for name in found)


def test_repeated_measurements_of_a_turn_count_by_their_median() -> None:
    lines = [
        {"mode": "join", "variant": "n500", "assemble_ms": assembled, "round_ms": 30.0}
        for assembled in (80.0, 400.0, 90.0)
    ]
    assert figures(lines)["a group of 500 assembled, ms"] == 90.0


def test_a_ratio_above_one_is_better_for_every_unit() -> None:
    by_name = {each.name: each for each in ROWS}
    of = {"new": 200.0, "old": 100.0}
    assert ratio(by_name["heartbeats/s, 10 members"], of, "new", "old") == 2.0
    assert ratio(by_name["KiB of memory per group of 2"], of, "new", "old") == 0.5
    assert ratio(by_name["heartbeats/s, 10 members"], {"new": 1.0}, "new", "old") is None


def test_unmeasured_cells_are_empty() -> None:
    run = {
        "columns": ["old", "new", "lax"],
        "medians": {"commits/s, 1 connection, depth 1": {"old": 2_500.0, "new": 5_000.0}},
    }
    assert list(table(run)) == [
        "| | old | new | lax | new / old |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| commits/s, 1 connection, depth 1 | 2,500 | 5,000 |  | 2.00 |",
    ]


def test_the_page_shows_earlier_runs() -> None:
    where = {"cores": 2, "processor": "a CPU", "memory_gib": 24, "kernel": "6", "python": "3.11"}

    def run(version: str, commits: float) -> dict[str, object]:
        return {
            "date": "2026-11-23T12:00Z",
            "machine": where,
            "versions": {"new": version},
            "columns": ["new"],
            "turns": {"new": 3},
            "seconds": 2.0,
            "load": 0.5,
            "medians": {"commits/s, 1 connection, depth 1": {"new": commits}},
        }

    first, second = run("1234567", 2_500.0), run("89abcde", 5_000.0)
    assert not any(line.startswith("| run |") for line in page([first]))
    assert list(page([first, second]))[-4:] == [
        "| run | version | load | commits/s, 1 connection, depth 1 |",
        "| --- | --- | ---: | ---: |",
        "| 2026-11-23T12:00Z | `1234567` | 0.5 | 2,500 |",
        "| 2026-11-23T12:00Z | `89abcde` | 0.5 | 5,000 |",
    ]


def test_every_row_is_of_a_mode_that_is_measured() -> None:
    assert {each.mode for each in ROWS} == set(MODES)


def test_charts_are_valid_for_any_values() -> None:
    bars = ratio_bars("a & b", {"row <1>": {"x": 0.25, "y": 3.0}, "empty": {}}, ["x", "y"])
    plots = panels({"one": ("n", "us", {"line": [(10, 1.0), (10_000, 1.2)]}), "none": ("n", "us", {})})
    for each in (bars, plots):
        assert ET.fromstring(each).tag.endswith("svg")
    assert "row &lt;1&gt;" in bars


def test_a_part_of_a_page_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- peers: written by benchmarks/peers.py -->\nold\n<!-- peers: end -->\nbehind\n",
        encoding="utf-8",
    )
    write_part("peers", ["| new |"], page)
    write_part("peers", ["| new |"], page)
    assert page.read_text(encoding="utf-8") == (
        "before\n<!-- peers: written by benchmarks/peers.py -->\n\n| new |\n\n<!-- peers: end -->\nbehind\n"
    )
    with pytest.raises(SystemExit):
        write_part("growth", [], page)


def test_the_page_of_figures_has_the_marks() -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for name in ("peers", "growth", "budget"):
        assert text.count(f"<!-- {name}: written by benchmarks/{name}.py -->\n") == 1
        assert text.count(f"<!-- {name}: end -->") == 1
