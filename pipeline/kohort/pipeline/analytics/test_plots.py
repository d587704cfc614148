"""Plots: scales that people read, and SVG that a browser takes."""

from xml.etree import ElementTree

import pytest

from kohort.pipeline.analytics.plots import Bar, Line, bar_plot, line_plot, nice, short


@pytest.mark.parametrize(
    "most, end", [(0, 1), (1, 1), (3, 5), (7, 10), (11, 20), (4_200, 5_000), (60_000, 100_000)]
)
def test_a_scale_ends_at_a_round_number_that_everything_fits_into(most: float, end: float) -> None:
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


def test_a_span_too_short_to_see_has_a_stroke_and_says_what_it_is() -> None:
    plot = bar_plot([Bar(10, 10, "a & b", "1 < 2"), Bar(20, 60, "c", "long")], 0, 100)
    short_one, long_one = elements(plot, "rect")
    assert float(str(short_one.get("width"))) == 2.0
    assert float(str(long_one.get("width"))) > 100
    assert [each.text for each in elements(plot, "title")] == ["1 < 2", "long"]


def test_nothing_to_draw_is_an_empty_plot() -> None:
    assert elements(line_plot([], 0, 0, "records"), "polyline") == []
