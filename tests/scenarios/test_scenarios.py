"""Plays every scenario of this folder and compares it with what is written there.

What the coordinator says now is written into the files with `make scenarios UPDATE=1`.
"""

import difflib
import os
import re
from pathlib import Path

import pytest

from tests.scenarios.conversation import played
from tests.scenarios.durations import ScenarioError

FOLDER = Path(__file__).parent
SCENARIOS = sorted(FOLDER.glob("*.txt"))
UPDATES = os.environ.get("UPDATE") == "1"
SHOWN = {*(f"R{number}" for number in (*range(2, 13), 15, 16, 18, 20, 32))}
LINES_MAX = 60  # A person reads it in a minute.


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    told = path.read_text(encoding="utf-8")
    now = played(told)
    if UPDATES:
        path.write_text(now, encoding="utf-8")
    elif now != told:
        before, after = told.splitlines(), now.splitlines()
        difference = difflib.unified_diff(
            before, after, f"{path.name} as written", "as played", lineterm="", n=4
        )
        pytest.fail("\n".join((*difference, "", "if that is right: make scenarios UPDATE=1")), pytrace=False)


def test_every_requirement_of_the_coordinator_has_a_scenario() -> None:
    named = {name for path in SCENARIOS for name in re.findall(r"R\d+", path.read_text(encoding="utf-8"))}
    assert named >= SHOWN


def test_a_scenario_is_short() -> None:
    lengths = {path.stem: path.read_text(encoding="utf-8").count("\n") for path in SCENARIOS}
    assert {name: length for name, length in lengths.items() if length > LINES_MAX} == {}


def test_a_changed_answer_is_seen() -> None:
    text = (FOLDER / "member_id_comes_first.txt").read_text(encoding="utf-8")
    assert played(text.replace("MEMBER_ID_REQUIRED", "UNKNOWN_MEMBER_ID", 1)) == text


def test_a_line_that_means_nothing_is_refused() -> None:
    with pytest.raises(ScenarioError, match="nobody knows how to 'dances'"):
        played("ana dances\n")
    with pytest.raises(ScenarioError, match="ana dances"):
        played("a share partition of 3 records\nana dances\n")
