"""HTTP of `kohort observe`: the live page for browsers, and what the observer answers."""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import urlsplit

from kohort.broker.http.page_files import ASSETS, CONTENT_TYPES, POLICY
from kohort.cli.status_server import Page, Question, file_page
from kohort.observe.pages import Answer

INDEX = Path(__file__).parent / "observer_page" / "index.html"
FILES = "/page/"
VIEWS = """\
  <nav aria-label="Views">
    <a href="#/groups" data-view="groups">Groups</a>
    <a href="#/health" data-view="health">Cluster</a>
  </nav>"""


class ObserverSite:
    """Answers questions; `clusters` are the names of several, each of which has a page of its own."""

    def __init__(self, answer: Callable[[str], Answer], clusters: Sequence[str] = ()) -> None:
        self._answer = answer
        self._clusters = clusters

    def page(self, question: Question) -> Page:
        """Return the answer to a question."""
        path = urlsplit(question.target).path
        if path.startswith(FILES):
            return file_page(path.removeprefix(FILES), ASSETS)
        cluster = path.strip("/")
        is_page = path == "/" or cluster in self._clusters
        if is_page and "text/html" in question.accept:
            return self._index(cluster)
        return Page(*self._answer(question.target))

    def _index(self, cluster: str) -> Page:
        """Return the live page: of one cluster, or the choice between several."""
        text = Template(INDEX.read_text(encoding="utf-8")).substitute(
            base=escape(f"/{cluster}" if cluster else ""),
            clusters=escape(" ".join(self._clusters)),
            views=VIEWS if cluster or not self._clusters else "",
        )
        return Page(200, CONTENT_TYPES[".html"], text.encode(), {"content-security-policy": POLICY})
