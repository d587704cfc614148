"""Draws the imports between the broker's folders into docs/architecture.md; fails where they form a circle.

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
PACKAGE = "kohort.broker."
BEGIN, END = "<!-- imports: written by docs/imports.py -->\n", "<!-- imports: end -->"
COMPOSITION = "composition"
COMPOSING = ("broker", "ephemeral", "main", "serving", "supervise", "worker", "__main__")
BESIDE = ("logs", "lean_imports")
"""Modules that set up the process: no part of the house."""

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


def picture(found: Imports) -> str:
    """Return the folders, top to bottom, and from which each imports, as Mermaid and as a table."""
    above = depths(found)
    names = sorted(above, key=lambda name: (-above[name], name))
    lines = ["```mermaid", "flowchart TD"]
    lines += [f"    {name}[{name}]" for name in names]
    for here in names:
        for there in names:
            # What everybody may use would hide the rest of the picture: it is said in words.
            if (here, there) in found and there not in ("runtime", "config"):
                lines.append(f"    {here} --> {there}")
    lines.append("```")
    rows = ["| folder | imports from |", "| --- | --- |"]
    for here in names:
        uses = ", ".join(there for there in names if (here, there) in found)
        rows.append(f"| {here} | {uses or 'nobody'} |")
    return "\n".join([*lines, "", *rows]) + "\n"


def main() -> int:
    """Write the picture, or with --check compare it, and return the exit status."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{picture(imports())}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if text != wanted:
            sys.stderr.write("docs/architecture.md: the picture of the imports is old: make docs\n")
            return 1
        return 0
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
