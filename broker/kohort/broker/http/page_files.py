"""The files of the live page. Brokers, workers and the observer show it, or parts of it."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

ASSETS = Path(__file__).parent / "live" / "assets"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of the page and of its files: nothing from elsewhere, nothing inline."""


class PageFile(NamedTuple):
    """One file, and its content type."""

    content_type: str
    body: bytes


@cache
def _names(folder: Path) -> frozenset[str]:
    """Return the names of the files of a page in its folder, listed once."""
    return frozenset(
        each.name for each in folder.iterdir() if each.suffix in CONTENT_TYPES and each.is_file()
    )


def page_file(name: str, folder: Path = ASSETS) -> PageFile | None:
    """Return a file of the page, None if there is none of that name. Any client may choose `name`."""
    if name not in _names(folder):  # On Windows a backslash or a drive in a name leads elsewhere as well.
        return None
    path = folder / name
    return PageFile(CONTENT_TYPES[path.suffix], path.read_bytes())
