"""Plots: scales that people read, and SVG that a browser takes."""

from xml.etree import ElementTree

import pytest

from kohort.pipeline.analytics.plots import Bar, Line, bar_plot, clock, line_plot, nice, short


@pytest.mark.parametrize(
    "most, end",
    [(0, 4), (1, 4), (4, 4), (7, 8), (11, 20), (4_200, 8_000), (60_000, 80_000), (81_000, 100_000)],
)
def test_a_scale_ends_at_a_round_number_above_all_values(most: float, end: float) -> None:
    assert nice(most) == end


@pytest.mark.parametrize(
    "value, text", [(0, "0"), (12, "12"), (1_500, "1.5k"), (2_000_000, "2M"), (3e9, "3G")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text


def elements(markup: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(f"<div>{markup}</div>").iter(name))


def test_a_line_lies_between_the_ends_of_its_plot() -> None:
    plot = line_plot([Line("<lag>", [(0, 0.0), (50, 10.0), (100, 5.0)])], 0, 100, "records")
    (line,) = elements(plot, "polyline")
    places = [tuple(map(float, each.split(","))) for each in str(line.get("points")).split()]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert places[1][1] < places[2][1] < places[0][1]  # SVG counts from the top.


def test_a_very_short_bar_has_a_visible_stroke_and_a_title() -> None:
    plot = bar_plot([Bar(10, 10, "a & b", "1 < 2"), Bar(20, 60, "c", "long")], 0, 100)
    short_one, long_one = elements(plot, "rect")
    assert float(str(short_one.get("width"))) == 2.0
    assert float(str(long_one.get("width"))) > 100
    assert [each.text for each in elements(plot, "title")] == ["1 < 2", "long"]


def test_a_plot_without_data_says_so() -> None:
    plot = line_plot([Line("lag", [])], 0, 0, "records")
    assert elements(plot, "polyline") == []
    assert "no data" in [each.text for each in elements(plot, "text")]


def test_one_point_is_a_dot() -> None:
    plot = line_plot([Line("lag", [(50, 3.0)])], 0, 100, "records")
    assert elements(plot, "polyline") == []
    assert len(elements(plot, "circle")) == 1


@pytest.mark.parametrize("span_h, text", [(0.5, "12:00:00"), (3, "12:00"), (48, "01-31 12:00")])
def test_times_include_the_date_if_a_plot_spans_days(span_h: float, text: str) -> None:
    assert clock(1_769_860_800_000, span_h * 3_600_000) == text
