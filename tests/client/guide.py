"""Runs the blocks of Python of a page, one after the other, as its reader would.

python -m tests.client.guide PAGE BOOTSTRAP     prints the line of each block before it is run

The address in the page is replaced. A block that reads on and on ends when it has printed enough.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

PRINTED_MOST = 3
ADDRESS = re.compile(r"127\.0\.0\.1:9092|localhost:9092")
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


class Enough(Exception):
    """A block has shown what it does."""


def blocks(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the line on which each block begins, and its code."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        yield text.count("\n", 0, found.start("code")) + 1, found["code"]


def say(*values: object) -> None:
    """Print, as `print` does without its options."""
    sys.stdout.write(" ".join(map(str, values)) + "\n")
    sys.stdout.flush()


def print_up_to(most: int) -> Callable[..., None]:
    """Return a `print` that raises Enough when it was called so often."""
    printed = 0

    def count(*values: object) -> None:
        nonlocal printed
        say(*values)
        printed += 1
        if printed == most:
            raise Enough

    return count


def main() -> None:
    """Run one page."""
    page, bootstrap = Path(sys.argv[1]), sys.argv[2]
    names: dict[str, object] = {"__name__": "guide"}
    for line, code in blocks(page):
        say(f"-- {page.name}:{line}")
        endless = "for record in consumer:" in code
        names["print"] = print_up_to(PRINTED_MOST) if endless else say
        try:
            exec(compile("\n" * (line - 1) + ADDRESS.sub(bootstrap, code), page, "exec"), names)
        except Enough:
            continue


if __name__ == "__main__":
    main()
