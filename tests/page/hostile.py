"""Names that are markup, and what shows that a page has not obeyed them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.page.browser import Browser

MARKUP = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>'
EVIL = f"{MARKUP}\"'&\u202e\x1b[2J"
HARMLESS = "window.harmed === undefined && !document.querySelector('main img, main script, main iframe')"


@contextmanager
def unharmed(browser: Browser) -> Iterator[None]:
    """Begin with an empty page. Whatever is done with it, nothing is harmed or refused."""
    browser.open("about:blank")
    browser.complaints.clear()
    browser.requested.clear()
    yield
    assert browser.run(HARMLESS)
    assert browser.complaints == []
