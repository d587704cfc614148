"""Draws the imports between the broker's folders for docs/architecture.md; fails where they form a circle.

python docs/imports.py [--check]     with --check nothing is written; the status is 1 where the picture is old

Imports under TYPE_CHECKING count like any other; tests do not.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BROKER = ROOT / "broker" / "kohort" / "broker"
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "pictures" / "imports.svg"
IMAGE = "![Which folder imports from which](pictures/imports.svg)"
PACKAGE = "kohort.broker."
BEGIN, END = "<!-- imports: written by docs/imports.py -->\n", "<!-- imports: end -->"
COMPOSITION = "composition"
COMPOSING = ("broker", "ephemeral", "main", "serving", "supervise", "worker", "__main__")
BESIDE = ("logs", "lean_imports")
"""Modules that set up the process: no part of the house."""
EVERYBODYS = ("runtime", "config")
WIDTH, ROW_HEIGHT, BOX_WIDTH, BOX_HEIGHT = 760, 70, 120, 30
"""In pixels."""

Imports = frozenset[tuple[str, str]]
"""The first folder imports from the second."""


def sources() -> Iterator[Path]:
    """Yield every module of the broker that ships."""
    for path in sorted(BROKER.rglob("*.py")):
        if not path.name.startswith(("test_", "conftest")):
            yield path


def room(name: str) -> str:
    """Return the folder that a module's name, as seen from the broker, belongs to."""
    first = name.split(".", maxsplit=1)[0]
    return COMPOSITION if first in COMPOSING else first


def imported(path: Path) -> Iterator[str]:
    """Yield what a module imports of the broker, as seen from there."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        for name in names:
            if name.startswith(PACKAGE):
                yield name.removeprefix(PACKAGE)


def imports() -> Imports:
    """Return the imports from folder to folder."""
    found: set[tuple[str, str]] = set()
    for path in sources():
        here = room(".".join(path.relative_to(BROKER).with_suffix("").parts))
        for there in {room(name) for name in imported(path)} - {here}:
            if here not in BESIDE and there not in BESIDE:
                found.add((here, there))
    return frozenset(found)


def depths(found: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return how far each folder is above those that import nobody. Raises: SystemExit at a circle."""
    below: dict[str, set[str]] = {}
    for here, there in found:
        below.setdefault(here, set()).add(there)
        below.setdefault(there, set())
    known: dict[str, int] = {}
    while len(known) < len(below):
        ready = {name for name in below.keys() - known.keys() if below[name] <= known.keys()}
        if not ready:
            raise SystemExit(f"imports form a circle among {sorted(below.keys() - known.keys())}")
        for name in ready:
            known[name] = 1 + max((known[each] for each in below[name]), default=-1)
    return known


def shown(found: Imports) -> Imports:
    """Return the imports to draw. An import is left out if a path through other folders leads there too.

    Folders that every folder may use would hide the rest. The text names them.
    """
    drawn = {(here, there) for here, there in found if there not in EVERYBODYS}
    below: dict[str, set[str]] = {}
    for name in sorted(above := depths(found), key=above.__getitem__):
        direct = {there for here, there in drawn if here == name}
        below[name] = direct.union(*(below[each] for each in direct))
    return frozenset(
        (here, there)
        for here, there in drawn
        if not any(there in below[other] for each, other in drawn if each == here and other != there)
    )


def picture(found: Imports) -> str:
    """Return an SVG image with a row of folders for each depth. Lines lead down to imported folders."""
    above = {name: depth for name, depth in depths(found).items() if name not in EVERYBODYS}
    rows = [sorted(name for name in above if above[name] == depth) for depth in sorted(set(above.values()))]
    rows.reverse()
    places: dict[str, tuple[float, float]] = {}
    for index, row in enumerate(rows):
        step = WIDTH / len(row)
        for number, name in enumerate(row):
            places[name] = ((number + 0.5) * step, 30 + index * ROW_HEIGHT)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {len(rows) * ROW_HEIGHT}" '
        'font-family="sans-serif" font-size="14" text-anchor="middle" role="img">',
        "<title>Which folder of the broker imports from which</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for here, there in sorted(shown(found)):
        (x, y), (to_x, to_y) = places[here], places[there]
        top, bottom = y + BOX_HEIGHT / 2, to_y - BOX_HEIGHT / 2
        bend = (bottom - top) / 2
        curve = f"C{x:.0f},{top + bend:.0f} {to_x:.0f},{bottom - bend:.0f} {to_x:.0f},{bottom:.0f}"
        path = f"M{x:.0f},{top:.0f} {curve}"
        lines.append(f'<path d="{path}" fill="none" stroke="#7986cb" stroke-width="1.2"/>')
        lines.append(f'<circle cx="{to_x:.0f}" cy="{bottom:.0f}" r="3" fill="#3949ab"/>')
    for name, (x, y) in sorted(places.items()):
        lines.append(
            f'<rect x="{x - BOX_WIDTH / 2:.0f}" y="{y - BOX_HEIGHT / 2:.0f}" width="{BOX_WIDTH}" '
            f'height="{BOX_HEIGHT}" rx="5" fill="#e8eaf6" stroke="#3949ab"/>'
        )
        lines.append(f'<text x="{x:.0f}" y="{y + 5:.0f}">{name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def table(found: Imports) -> str:
    """Return the folders, top to bottom, and from which each imports, as a table in Markdown."""
    above = depths(found)
    names = sorted(above, key=lambda name: (-above[name], name))
    rows = ["| folder | imports from |", "| --- | --- |"]
    for here in names:
        uses = ", ".join(there for there in names if (here, there) in found)
        rows.append(f"| {here} | {uses or 'nobody'} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    """Write picture and table, or with --check compare them, and return the exit status."""
    found = imports()
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{IMAGE}\n\n{table(found)}\n{END}{after}"
    drawn = picture(found)
    if "--check" in sys.argv[1:]:
        if text != wanted or not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != drawn:
            sys.stderr.write("docs/architecture.md: the picture of the imports is old: make docs\n")
            return 1
        return 0
    PAGE.write_text(wanted, encoding="utf-8")
    PICTURE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
