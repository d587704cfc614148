"""The site's list of pages, and how it treats links that leave docs/. `make docs` builds it, strictly."""

import re
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.packaging.scripts import load_script

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class Loader(yaml.SafeLoader):
    """Reads the names of Python functions, which mkdocs.yml has, as text."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda loader, suffix, node: suffix)


def pages(nav: Any) -> list[str]:
    """Return the pages of a navigation, however deep they are."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in pages(part)]


def hook() -> ModuleType:
    return load_script("docs/site_links.py")


def test_every_page_is_in_the_navigation_once() -> None:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)  # A SafeLoader.
    assert settings["strict"]
    listed = pages(settings["nav"])
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


def test_links_to_repository_files_lead_to_generated_pages() -> None:
    lead = hook().with_pages_of_files
    guides = PurePosixPath("guides")
    assert lead("see [the file](../../deploy/alerts.yml), too", guides) == (
        "see [the file](../repository/deploy/alerts.yml.md), too"
    )
    assert lead("see [limits](../limits.md#memory)", guides) == "see [limits](../limits.md#memory)"
    assert lead("[a list](decisions/)", PurePosixPath()) == "[a list](repository/docs/decisions.md)"
    assert lead("![one](pictures/peers.svg)", PurePosixPath()) == "![one](pictures/peers.svg)"
    assert lead("[drawn](pictures/peers.svg)", PurePosixPath()) == "[drawn](pictures/peers.svg)"
    assert lead("```python\na[0](../deploy)\n```", PurePosixPath()) == "```python\na[0](../deploy)\n```"


@pytest.mark.parametrize("target", ["../../../etc/passwd", "../.git/config", "../missing.py"])
def test_only_files_of_the_repository_get_a_page(target: str) -> None:
    assert hook().outside(PurePosixPath(), target) is None


def test_generated_pages_have_the_text_of_files_and_the_names_of_folders() -> None:
    module = hook()
    scenario = "tests/scenarios/commits_are_kept.txt"
    assert (ROOT / scenario).read_text(encoding="utf-8") in module.text_of(scenario)
    assert "[commits_are_kept.txt](scenarios/commits_are_kept.txt.md)" in module.text_of("tests/scenarios")
    decisions = module.text_of("docs/decisions")
    assert decisions.count("](../../decisions/") == len(list((DOCS / "decisions").glob("*.md")))


def test_no_page_loads_a_script_from_another_host() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in settings
    for page in DOCS.rglob("*.md"):
        assert "```mermaid" not in page.read_text(encoding="utf-8"), page


def test_the_index_names_every_page_except_those_in_lists() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).as_posix()
        assert name == "index.md" or name.startswith("decisions/") or f"({name})" in index, name


def test_the_workflow_runs_the_documented_commands() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = [step.get("run") for job in workflow["jobs"].values() for step in job["steps"]]
    assert ".ci/run" in steps
    assert "make docs" in steps


def test_contributing_names_existing_targets_and_files() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in ("CONTRIBUTING.md", "SECURITY.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert set(re.findall(r"(?:`|^ {4})make ([a-z-]+)", text, re.MULTILINE)) <= targets
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (ROOT / target).exists(), target
