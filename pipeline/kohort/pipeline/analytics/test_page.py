"""The report's page, from rows made by hand."""

from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from kohort.pipeline.analytics.arithmetic import duration
from kohort.pipeline.analytics.page import counted, template

EVIL = "<script>alert('x')</script>"
VOID = {"meta", "circle", "line", "polyline", "rect"}


class Tags(HTMLParser):
    """Notes which elements a page has, and that each is closed where it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def render(**more: object) -> str:
    values = {
        "from_ms": 0,
        "to_ms": 60_000,
        "groups": [],
        "verdicts": [],
        "storms": [],
        "moves": [],
        "drawn": [],
    }
    return template().render(values | more)


def group_named(name: str) -> SimpleNamespace:
    return SimpleNamespace(
        name=name,
        anchor="group-x",
        verdict="OK",
        lag=12_345,
        consumed_per_s=1.5,
        produced_per_s=None,
        drain_seconds=None,
        still=SimpleNamespace(rebalances=3, still_ms=1_500),
    )


def test_a_group_name_is_escaped() -> None:
    text = render(groups=[group_named(EVIL)])
    assert EVIL not in text
    assert "&lt;script&gt;" in text
    for each in ("12,345", "it stays as it is", "1.5 s", 'href="#group-x"'):
        assert each in text


def test_every_element_is_closed_and_a_narrow_screen_is_thought_of() -> None:
    rebalance = SimpleNamespace(
        started_ms=1, generation_id=2, cause=SimpleNamespace(kind="joined", client_id=None),
        outcome="done", members=3, still_ms=20, moves=[1, 2],
    )  # fmt: skip
    drawn = group_named("slow")
    drawn.lag_plot = drawn.pace_plot = drawn.rebalance_plot = ""
    drawn.partitions, drawn.rebalances, drawn.span_ms = [], [rebalance], 0
    storm = SimpleNamespace(
        group_id="g", started_ms=0, ended_ms=9, rebalances=4, still_share=0.25, causes={"a": 1}, clients={}
    )
    move = SimpleNamespace(
        group_id="g", topic="t", partition=0, moves=5, moves_per_hour=2.25, still_ms=5, too_often=True
    )
    tags = Tags()
    text = render(groups=[drawn], storms=[storm], moves=[move], drawn=[drawn], verdicts=[("OK", "fine")])
    tags.feed(text)
    assert tags.open == []
    assert tags.seen.count("table") == 5
    assert "25%" in text
    assert "too often" in text
    assert 'name="viewport"' in text


@pytest.mark.parametrize(
    "seconds, text", [(0.02, "20 ms"), (3, "3.0 s"), (600, "10 min"), (36_000, "10.0 h")]
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_most_frequent_causes_come_first() -> None:
    assert counted({"a": 1, "b": 3}) == "b (3), a (1)"
