"""The site's list of pages, and how it treats links that leave docs/. `make docs` builds it, strictly."""

import importlib.util
import re
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import yaml

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
    spec = importlib.util.spec_from_file_location("site_links", DOCS / "site_links.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_has_its_place_in_the_navigation_once() -> None:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)  # A SafeLoader.
    assert settings["strict"]
    listed = pages(settings["nav"])
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


def test_links_out_of_the_docs_become_words_and_others_stay() -> None:
    shorten = hook().without_links_outside
    guides = PurePosixPath("guides")
    assert shorten("see [the file](../../deploy/x.yml), too", guides) == "see the file, too"
    assert shorten("see [limits](../limits.md#memory)", guides) == "see [limits](../limits.md#memory)"
    assert shorten("[a list](decisions/)", PurePosixPath()) == "a list"
    assert shorten("![one](pictures/one.png)", PurePosixPath()) == "![one](pictures/one.png)"
    assert shorten("```python\na[0](../x)\n```", PurePosixPath()) == "```python\na[0](../x)\n```"


def test_the_workflow_calls_what_people_call() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    steps = [step.get("run") for job in workflow["jobs"].values() for step in job["steps"]]
    assert ".ci/run" in steps
    assert "make docs" in steps


def test_who_contributes_is_told_of_targets_and_files_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in ("CONTRIBUTING.md", "SECURITY.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert set(re.findall(r"(?:`|^ {4})make ([a-z-]+)", text, re.MULTILINE)) <= targets
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (ROOT / target).exists(), target
