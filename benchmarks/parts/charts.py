"""Charts as SVG files, drawn from numbers: bars beside each other, and lines over growing sizes. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH = 860
LABELS = 300
ROW, BAR, TOP, BOTTOM, RIGHT = 34, 11, 44, 30, 76
COLOURS = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#dc2626", "#4b5563")
PLOT_WIDTH, PLOT_HEIGHT, PLOT_LEFT = 420, 230, 66
GRID = "#e5e7eb"
FONT = "font-family='system-ui, sans-serif' font-size='12'"


def svg(width: float, height: float, parts: Sequence[str]) -> str:
    """Return a picture on white, which reads the same in a browser and on a page."""
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' {FONT}>\n"
        f"<rect width='{width:g}' height='{height:g}' fill='#ffffff'/>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    """Return a text at a position."""
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' {more}>{escape(words)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    """Return a thin line."""
    return f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}'/>"


def ratio_bars(title: str, rows: Mapping[str, Mapping[str, float]], series: Sequence[str]) -> str:
    """Return bars for how many times as good something is, on a scale in which twice and half are as far.

    `rows`: by label, then by series, a ratio above 0. Bars to the right of the middle are above 1.
    """
    most = max((abs(math.log2(each)) for row in rows.values() for each in row.values()), default=1.0)
    most = max(1.0, math.ceil(most))
    middle = LABELS + (WIDTH - LABELS - RIGHT) / 2
    unit = (WIDTH - LABELS - RIGHT) / 2 / most
    height_row = max(ROW, BAR * len(series) + 8)
    height = TOP + height_row * len(rows) + BOTTOM
    parts = [text(12, 20, title, more="font-weight='bold'"), *_legend(series, WIDTH - 12)]
    for power in range(-int(most), int(most) + 1):
        x = middle + power * unit
        colour = "#9ca3af" if not power else GRID
        parts.append(line(x, TOP - 6, x, height - BOTTOM, colour))
        parts.append(text(x, height - 12, f"{2.0**power:g} x", "middle", "fill='#6b7280'"))
    for place, (label, row) in enumerate(rows.items()):
        top = TOP + place * height_row
        parts.append(text(LABELS - 10, top + height_row / 2, label, "end"))
        for number, name in enumerate(series):
            if name not in row:
                continue
            x = middle + math.log2(row[name]) * unit
            y = top + 2 + number * BAR
            left, width = min(x, middle), max(abs(x - middle), 1.0)
            colour = COLOURS[number % len(COLOURS)]
            parts.append(
                f"<rect x='{left:.1f}' y='{y:.1f}' width='{width:.1f}' height='{BAR - 2}' fill='{colour}'>"
                f"<title>{escape(f'{label}, {name}: {row[name]:.2f}')}</title></rect>"
            )
            parts.append(text(max(x, middle) + 4, y + BAR - 2, f"{row[name]:.2f}", more="font-size='10'"))
    return svg(WIDTH, height, parts)


def _legend(names: Sequence[str], right: float) -> list[str]:
    """Return the series' names with their colours, in a line that ends at the right."""
    parts, x = [], right
    for number, name in reversed(list(enumerate(names))):
        x -= 7 * len(name) + 22
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f"<rect x='{x:.1f}' y='11' width='10' height='10' fill='{colour}'/>")
        parts.append(text(x + 14, 20, name))
    return parts


Points = Sequence[tuple[float, float]]


def panels(plots: Mapping[str, tuple[str, str, Mapping[str, Points]]], columns: int = 2) -> str:
    """Return plots side by side, each with logarithmic axes.

    `plots`: by title, what goes to the right, what goes up, and the lines by name.
    """
    rows = -(-len(plots) // columns)
    parts = []
    for place, (title, (across, upwards, lines)) in enumerate(plots.items()):
        left, top = place % columns * PLOT_WIDTH, place // columns * (PLOT_HEIGHT + 40)
        parts.append(f"<g transform='translate({left} {top})'>")
        parts += _panel(title, across, upwards, lines)
        parts.append("</g>")
    return svg(columns * PLOT_WIDTH, rows * (PLOT_HEIGHT + 40), parts)


def _panel(title: str, across: str, upwards: str, lines: Mapping[str, Points]) -> list[str]:
    points = [point for each in lines.values() for point in each if point[0] > 0 and point[1] > 0]
    parts = [text(12, 20, f"{title}: {upwards}", more="font-weight='bold'")]
    if not points:
        return [*parts, text(PLOT_WIDTH / 2, PLOT_HEIGHT / 2, "no data", "middle")]
    x0, x1 = _decades([each for each, _ in points])
    y0, y1 = _decades([each for _, each in points])
    bottom, height, width = PLOT_HEIGHT - 10, PLOT_HEIGHT - 70, PLOT_WIDTH - PLOT_LEFT - 24

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x = PLOT_LEFT + (math.log10(point[0]) - x0) / (x1 - x0) * width
        return x, bottom - (math.log10(point[1]) - y0) / (y1 - y0) * height

    for power in range(x0, x1 + 1):
        x, _ = place((10.0**power, 10.0**y0))
        parts.append(line(x, bottom - height, x, bottom, GRID))
        parts.append(text(x, bottom + 15, short(10.0**power), "middle", "fill='#6b7280'"))
    for power in range(y0, y1 + 1):
        _, y = place((10.0**x0, 10.0**power))
        parts.append(line(PLOT_LEFT, y, PLOT_LEFT + width, y, GRID))
        parts.append(text(PLOT_LEFT - 6, y + 4, short(10.0**power), "end", "fill='#6b7280'"))
    parts.append(text(PLOT_LEFT + width, bottom + 29, across, "end", "fill='#6b7280'"))
    for number, (name, drawn) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [place(each) for each in drawn if each[0] > 0 and each[1] > 0]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f"<polyline points='{joined}' fill='none' stroke='{colour}' stroke-width='2'/>")
        parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>" for x, y in places]
        parts.append(f"<rect x='{PLOT_LEFT + number * 116}' y='30' width='10' height='10' fill='{colour}'/>")
        parts.append(text(PLOT_LEFT + number * 116 + 14, 39, name, more="font-size='11'"))
    return parts


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return powers of ten between which the values lie."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def short(value: float) -> str:
    """Return a number in a few characters: 10k, 1M."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{name}"
    return f"{value:g}"
