"""docs/queues.md: its blocks do what they say, in their order, on both brokers."""

from __future__ import annotations

from pathlib import Path

from kohort.client import Admin
from tests.client.guide import blocks
from tests.client.test_guide import run_page

PAGE = Path(__file__).parents[2] / "docs" / "queues.md"


def test_every_block_of_the_page_runs(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert "orders" not in admin.list_topics()
    printed = run_page(PAGE, bootstrap)
    assert printed.count("-- queues.md") == len(list(blocks(PAGE)))
    assert "handled order 1" in printed
    assert "1 open, 1 dead" in printed
    assert "retried 1" in printed
