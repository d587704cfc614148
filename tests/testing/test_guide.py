"""Every block of docs/testing-your-code.md is a file of tests that passes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kohort.testing import Broker
from tests.client.guide import blocks

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "testing-your-code.md"
BLOCKS = list(blocks(GUIDE))
PUBLIC = [name for name in dir(Broker) if not name.startswith("_")]


@pytest.mark.parametrize("line, code", [pytest.param(*each, id=f"line-{each[0]}") for each in BLOCKS])
def test_a_block_of_the_guide_passes(pytester: pytest.Pytester, line: int, code: str) -> None:
    pytester.makepyfile(code)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=len(re.findall(r"^def test_", code, re.MULTILINE)))


def test_the_guide_has_tests_with_every_client() -> None:
    text = "".join(code for _, code in BLOCKS)
    assert all(f"from {library} import" in text for library in ("confluent_kafka", "kafka", "aiokafka"))


@pytest.mark.parametrize("name", [*PUBLIC, "advance"])
def test_every_public_part_has_a_place_in_the_guide(name: str) -> None:
    assert re.search(rf"\b{name}\b", GUIDE.read_text(encoding="utf-8"))
