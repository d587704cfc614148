"""The guide for contributors: whatever it names is there."""

import re
from pathlib import Path

import pytest

from tests.rooms import ROOMS

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "contributing.md"
TEXT = GUIDE.read_text(encoding="utf-8")
PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w.-]+\.(?:py|md|json|toml|txt|tsv)|Makefile")
MADE = {"build/trace.txt"}
"""What a command in the guide writes."""


def named() -> list[str]:
    """Return all paths in the guide: within code, alone or as an argument of a command."""
    code = re.findall(r"`([^`]+)`", TEXT)
    words = {word.strip("\"'") for each in code for word in re.split(r"[\s=]", each)}
    return sorted(word for word in words if PATH.fullmatch(word) and word not in MADE)


def test_the_guide_names_many_paths() -> None:
    assert len(named()) > 40


@pytest.mark.parametrize("path", named())
def test_a_path_in_the_guide_is_there(path: str) -> None:
    tool = path.startswith(".venv/")
    assert tool or (ROOT / path).exists()


def test_every_folder_of_the_project_is_in_the_table_of_tests() -> None:
    table = TEXT.partition("## Which tests does my change need?")[2]
    for room in ROOMS:
        folder = "broker/kohort/broker" if room == "broker" else room
        assert f"`{folder}/" in table, folder
