"""What the site does otherwise than the repository: a link out of docs/ becomes its words alone."""

import re
from pathlib import PurePosixPath
from typing import Any

LINK = re.compile(r"(?<!!)\[(?P<words>[^\]]*)\]\((?P<target>(?:\.\./|\./)*[^)#\s:]+)(?:#[^)]*)?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Return the page's text as the site has it; mkdocs calls this."""
    return without_links_outside(markdown, PurePosixPath(page.file.src_uri).parent)


def without_links_outside(markdown: str, folder: PurePosixPath) -> str:
    """Return the text without links that lead out of docs/, where no reader of the site can go."""

    def shorten(found: re.Match[str]) -> str:
        inside = not leaves(folder, found["target"]) and not found["target"].endswith("/")
        return found[0] if inside else found["words"]

    parts: list[str] = []
    end = 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(shorten, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(shorten, markdown[end:])])


def leaves(folder: PurePosixPath, target: str) -> bool:
    """Return whether a target, seen from a folder of docs/, is outside it."""
    depth = len(folder.parts)
    for part in PurePosixPath(target).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False
