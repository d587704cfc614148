"""HTTP of `kohort observe`: the live page for browsers, `/mcp` for agents, and what the observer answers."""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from string import Template

import msgspec
import trio
from starlette.datastructures import Headers

from kohort.broker.http.agents import PATH as AGENTS
from kohort.broker.http.agents import refusal
from kohort.broker.http.page_files import ASSETS, CONTENT_TYPES, POLICY
from kohort.broker.http.questions import Question
from kohort.cli.status_server import Page, file_page
from kohort.observe.pages import JSON, Answer

INDEX = Path(__file__).parent / "observer_page" / "index.html"
FILES = "/page/"
VIEWS = """\
  <nav aria-label="Views">
    <a href="#/groups" data-view="groups">Groups</a>
    <a href="#/health" data-view="health">Cluster</a>
  </nav>"""


class ObserverSite:
    """Answers questions; `clusters` are the names of several, each of which has a page of its own."""

    def __init__(
        self,
        answer: Callable[[str], Answer],
        clusters: Sequence[str] = (),
        *,
        answers_agents: bool = False,
    ) -> None:
        self._answer = answer
        self._clusters = clusters
        self._answers_agents = answers_agents

    def page(self, question: Question) -> Page:
        """Return the answer to a question."""
        path = question.path
        if path.startswith(FILES):
            return file_page(path.removeprefix(FILES), ASSETS)
        if path in {AGENTS, *(f"/{each}{AGENTS}" for each in self._clusters)}:
            return self._agents(question, path.removesuffix(AGENTS))
        if question.method != "GET":
            return _error(405, "this is asked by GET alone", allow="GET")
        cluster = path.strip("/")
        is_page = path == "/" or cluster in self._clusters
        if is_page and b"text/html" in dict(question.headers).get(b"accept", b""):
            return self._index(cluster)
        return Page(*self._answer(f"{path}?{question.query.decode()}" if question.query else path))

    def _index(self, cluster: str) -> Page:
        """Return the live page: of one cluster, or the choice between several."""
        text = Template(INDEX.read_text(encoding="utf-8")).substitute(
            base=escape(f"/{cluster}" if cluster else ""),
            clusters=escape(" ".join(self._clusters)),
            views=VIEWS if cluster or not self._clusters else "",
        )
        return Page(200, CONTENT_TYPES[".html"], text.encode(), {"content-security-policy": POLICY})

    def _agents(self, question: Question, base: str) -> Page:
        """Return the answer to an agent, about the cluster whose page is at `base`."""
        if not self._answers_agents:
            return _error(404, "agents are not answered here: kohort observe --mcp")
        if self._clusters and not base:
            own = ", ".join(f"/{each}{AGENTS}" for each in self._clusters)
            return _error(404, f"each cluster has its own: {own}")
        refused = refusal(question.method, Headers(raw=[*question.headers]))
        if refused is not None:
            return _error(*refused, allow="POST")
        from kohort.broker.http.mcp_endpoint import agent_answer  # No agent asks most observers.

        async def ask(target: str) -> tuple[int, bytes]:
            told = self._answer(f"{base}{target}")
            return told.status, told.body

        told = trio.run(agent_answer, question, ask)
        content_type = dict(told.headers).get(b"content-type", JSON.encode()).decode()
        return Page(told.status, content_type, told.body)


def _error(status: int, reason: str, **headers: str) -> Page:
    return Page(status, JSON, msgspec.json.encode({"error": reason}), headers)
