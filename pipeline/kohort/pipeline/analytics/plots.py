"""Plots as inline SVG, drawn from numbers: nothing is loaded, and a browser needs no script. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

WIDTH, HEIGHT = 760, 180
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 20, 26
COLOURS = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#dc2626", "#0891b2", "#ca8a04", "#4b5563")
DASHES = ("none", "6 3", "2 3", "8 3 2 3")
"""Lines that cover each other stay distinct, with and without colours."""
TICKS = 4
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@dataclass(frozen=True, slots=True)
class Line:
    """A named series of (time in ms, value) points in the order of time."""

    name: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of time with the name of a colour and a text for the mouse pointer."""

    started_ms: int
    ended_ms: int
    kind: str
    says: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """The part of a plot in which values lie."""

    from_ms: int
    to_ms: int
    most: float

    def x(self, at_ms: float) -> float:
        span = max(self.to_ms - self.from_ms, 1)
        return LEFT + (at_ms - self.from_ms) / span * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.most * (HEIGHT - TOP - BOTTOM)


def line_plot(lines: Sequence[Line], from_ms: int, to_ms: int, unit: str) -> str:
    """Return a plot of these lines over time, with its scale and its legend."""
    most = max((value for line in lines for _, value in line.points), default=0.0)
    frame = _Frame(from_ms, to_ms, nice(most))
    parts = [*_scale(frame, unit), *_times(frame)]
    for number, line in enumerate(lines):
        parts += _drawn(frame, line, number)
    if not any(line.points for line in lines):
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text x="{middle}" y="{HEIGHT / 2}" text-anchor="middle" class="unit">no data</text>')
    return _svg(parts, HEIGHT) + _legend([line.name for line in lines])


def _drawn(frame: _Frame, line: Line, number: int) -> list[str]:
    """Return a line, or a dot where one point is all that is known."""
    colour, dashes = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    places = [(frame.x(at), frame.y(value)) for at, value in line.points]
    if len(places) == 1:
        ((x, y),) = places
        return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>']
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    style = f'fill="none" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dashes}"'
    return [f'<polyline points="{joined}" {style}/>'] if places else []


def bar_plot(bars: Sequence[Bar], from_ms: int, to_ms: int) -> str:
    """Return spans along the time, one row per kind; a span too short to see is a thin stroke."""
    kinds = sorted({each.kind for each in bars})
    frame = _Frame(from_ms, to_ms, 1)
    height = TOP + 22 * len(kinds) + BOTTOM
    parts = []
    for each in bars:
        number = kinds.index(each.kind)
        left = frame.x(max(each.started_ms, from_ms))
        width = max(frame.x(each.ended_ms) - left, 2.0)
        parts.append(
            f'<rect x="{left:.1f}" y="{TOP + 22 * number}" width="{width:.1f}" height="16" rx="2"'
            f' fill="{COLOURS[number % len(COLOURS)]}"><title>{escape(each.says)}</title></rect>'
        )
    return _svg([*parts, *_times(frame, height)], height) + _legend(kinds)


def nice(most: float) -> float:
    """Return an end of the scale above `most` with short quarters: 4, 8, 10, 20, 40 ..."""
    end = 1.0
    while True:
        for step in (1, 2, 4, 8):
            if max(most, TICKS) <= step * end:
                return step * end
        end *= 10


def short(value: float) -> str:
    """Return a number in a few characters: 1.2k, 3.4M."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{name}"
    return f"{value:.3g}"


def clock(at_ms: float, span_ms: float = 0) -> str:
    """Return a time in UTC for an axis: without the date when the span is within a day."""
    form = "%H:%M:%S" if span_ms <= HOUR_MS else "%H:%M" if span_ms <= DAY_MS else "%m-%d %H:%M"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form)


def date_and_clock(at_ms: float) -> str:
    """Return a time in UTC with its date."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _scale(frame: _Frame, unit: str) -> list[str]:
    parts = []
    for number in range(TICKS + 1):
        value = frame.most * number / TICKS
        y = frame.y(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>')
    return [*parts, f'<text x="{LEFT}" y="{TOP - 8}" class="unit">{escape(unit)}</text>']


def _times(frame: _Frame, height: int = HEIGHT) -> list[str]:
    parts = []
    for number in range(TICKS + 1):
        at_ms = frame.from_ms + (frame.to_ms - frame.from_ms) * number / TICKS
        anchor = {0: "start", TICKS: "end"}.get(number, "middle")
        text = clock(at_ms, frame.to_ms - frame.from_ms)
        parts.append(f'<text x="{frame.x(at_ms):.1f}" y="{height - 8}" text-anchor="{anchor}">{text}</text>')
    return parts


def _svg(parts: Sequence[str], height: int) -> str:
    """Return a picture in a frame that scrolls on a narrow screen: a smaller picture has unreadable text."""
    return f'<div class="wide"><svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg></div>'


def _legend(names: Sequence[str]) -> str:
    items = (
        f'<span><i style="background:{COLOURS[number % len(COLOURS)]}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return f'<p class="legend">{"".join(items)}</p>'
