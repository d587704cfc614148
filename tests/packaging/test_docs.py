"""The documentation against the code: tables, links, names of settings, metrics, files and make targets."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.broker.config import BROKER_DEFINITIONS, TopicConfig
from kohort.broker.http.families import FAMILIES
from kohort.broker.main import parse
from kohort.cli.queue_families import FAMILIES as QUEUE_FAMILIES
from kohort.observe.families import FAMILIES as OBSERVE_FAMILIES

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"], key=lambda page: page.name
)
SETTINGS = {each.name for each in BROKER_DEFINITIONS} | set(TopicConfig.DEFINITIONS)
SUFFIXES = ("_bucket", "_sum", "_count")

page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


@pytest.mark.parametrize("script", ["docs/tables.py", "docs/requirements.py", "docs/imports.py"])
def test_the_tables_equal_the_declarations(script: str) -> None:
    checked = subprocess.run(
        [sys.executable, script, "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


@page
def test_every_link_inside_the_repository_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@page
def test_every_setting_that_is_set_in_an_example_exists(path: Path) -> None:
    for name in re.findall(r"--set ([a-z.]+)=", path.read_text(encoding="utf-8")):
        assert name in SETTINGS, name


@page
def test_every_metric_that_is_named_exists(path: Path) -> None:
    known = {family.name for family in (*FAMILIES, *QUEUE_FAMILIES, *OBSERVE_FAMILIES)}
    known |= {f"{family.name}{suffix}" for family in FAMILIES for suffix in SUFFIXES}
    endings = r"_(?:total|seconds|bytes)(?:_bucket|_sum|_count)?"
    for name in re.findall(rf"`(kohort_[a-z_]+{endings})\b", path.read_text(encoding="utf-8")):
        assert name in known, name


@page
def test_every_make_target_that_is_named_exists(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = re.findall(r"(?:`|^ {4})make ([a-z-]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= targets


@page
def test_every_option_of_serve_that_is_shown_exists(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    shown = re.findall(r"kohort serve ([^\n`]*)", path.read_text(encoding="utf-8"))
    assert {option for line in shown for option in re.findall(r"--[a-z-]+", line)} <= known


def test_decisions_are_numbered_once_each() -> None:
    numbers = [path.name[:4] for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert all(number.isdecimal() for number in numbers)
    assert len(numbers) == len(set(numbers))


def test_the_changelog_has_an_unreleased_part() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
