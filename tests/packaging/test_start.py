"""Every block of docs/start.md and docs/tour.md runs, in order and in one shell, and prints what is shown.

What docs/running.md says of backups is done with the data that this leaves behind.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.repetitions import only_by_night

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS_MAX = 600


def test_the_commands_of_the_start_page_work(tmp_path: Path) -> None:
    play(DOCS / "start.md", tmp_path)
    backup = BLOCK.findall((DOCS / "running.md").read_text(encoding="utf-8"))
    done = run("\n".join(code for _, code in backup), tmp_path, {})
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "restored" / "kohort-data" / "meta.properties").exists()


@only_by_night
def test_the_commands_of_the_tour_work_and_leave_nothing(tmp_path: Path) -> None:
    play(DOCS / "tour.md", tmp_path)
    assert {each.name for each in tmp_path.iterdir()} <= {"__pycache__", ".pytest_cache"}


STARTS = [
    (page, lines)
    for page in ("start.md", "tour.md")
    for lines in re.findall(
        r"^kohort serve.*\nuntil .*\n.*\n", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE
    )
]


@pytest.mark.parametrize("page, lines", STARTS, ids=[f"{page}-{n}" for n, (page, _) in enumerate(STARTS)])
def test_a_broker_whose_port_is_taken_says_so(tmp_path: Path, page: str, lines: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        kafka = f"127.0.0.1:{taken.getsockname()[1]}"
        http, registry = (f"127.0.0.1:{free_port()}" for _ in range(2))
        script = lines.replace("127.0.0.1:8081", registry)
        script = script.replace("kohort serve", f"kohort serve --listen {kafka} --http {http}")
        done = run(script, tmp_path, {})
    assert kafka in done.stdout, done.stdout + done.stderr
    assert "in use" in done.stdout


def test_each_page_starts_a_broker() -> None:
    assert {page for page, _ in STARTS} == {"start.md", "tour.md"}


def play(page: Path, folder: Path) -> None:
    """Run the commands of a page. Each line that it shows has to be in what they print."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl on this machine")
    kafka, http, registry = (f"127.0.0.1:{free_port()}" for _ in range(3))
    text = page.read_text(encoding="utf-8").replace("127.0.0.1:9092", kafka)
    text = text.replace("127.0.0.1:9644", http).replace("127.0.0.1:8081", registry)
    found = BLOCK.findall(text)
    script = "\n".join(code for kind, code in found if kind == "sh")
    script = script.replace("kohort serve", f"kohort serve --listen {kafka} --http {http}")
    done = run(script, folder, {"KOHORT_BOOTSTRAP_SERVERS": kafka, "KOHORT_HTTP": http})
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout + done.stderr
    shown = [line for kind, lines in found if kind == "text" for line in lines.splitlines()]
    assert shown
    for line in shown:
        assert line in printed, f"{line!r} is not in:\n{printed}"


def run(script: str, folder: Path, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Return how a script has ended that knows this environment's `kohort`."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-m", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, **settings},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
