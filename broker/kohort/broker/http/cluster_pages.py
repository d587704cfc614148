"""One broker's HTTP address answers for its cluster: it asks the others about what they coordinate or lead.

A broker answers another one from its own pages alone, so that no request goes in circles. `unanswered` names
the brokers that did not answer in time. `?scope=broker` shows this broker alone.
"""

from collections.abc import Callable, Mapping

import msgspec
import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kohort.broker.http import cluster_merging as merging
from kohort.broker.http.brokers import Brokers, Silent
from kohort.broker.http.conversation import CONVERSATION
from kohort.broker.http.guard import USER, error_response
from kohort.broker.http.keeping import KeptPages
from kohort.broker.http.live.feed import FeedResponse, Feeds, key_of
from kohort.broker.http.live.history import TOPIC
from kohort.broker.http.live.messages import Question as Records
from kohort.broker.http.live.messages import question_of
from kohort.broker.http.named_route import NamedRoute
from kohort.broker.http.questions import Answer, Question, answered, passed_on, question_from
from kohort.broker.http.view import View
from kohort.protocol.between_brokers import BrokerPageRequest, PageHeader

OK = 200
NOT_FOUND = 404
SERVERS_FAULT = 500
UNAVAILABLE = 503
OWN_SCOPE = "broker"
PARAMETER_CHARACTERS_MAX = 1_000
PASSED_HEADERS = frozenset((b"accept", b"content-type", b"host", b"origin", b"x-kohort-write"))
"""What another broker has to know of a request: no secret is among it."""
GROUPS = "/api/v1/groups"
LIVE = "/api/v1/live/"
MERGED_VIEWS = {
    "groups": merging.live_groups,
    "topics": merging.live_topics,
    "topic": merging.live_topic,
    "health": merging.live_health,
    "history": merging.live_history,
    "transactions": merging.live_transactions,
    "access": merging.live_access,
}

Told = Mapping[int, Answer]
"""What each broker has answered."""


class NotAnswered(Exception):
    """There is no answer, and why, with HTTP's status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class ClusterPages:
    """An ASGI application: the pages of this broker, with what the others have."""

    def __init__(self, own: ASGIApp, brokers: Brokers, view: View) -> None:
        """What this address may not show or change by its `view`, no other broker is asked for."""
        self._own = own
        self._view_of_own = view
        self._brokers = brokers
        self._kept = KeptPages()
        self._feeds = Feeds()
        self._routes = Starlette(
            routes=[
                Route(GROUPS, self.groups, methods=["GET"]),
                NamedRoute("/api/v1/groups/{group_id:path}", self.group),
                NamedRoute("/api/v1/share-groups/{group_id:path}", self.share_group),
                Route("/api/v1/live/write", self.write, methods=["POST"]),
                Route("/api/v1/live/messages/{topic}", self.messages, methods=["GET"]),
                Route("/api/v1/live/{view}", self.look, methods=["GET"]),
                Route("/api/v1/live/{view}/events", self.feed, methods=["GET"]),
            ],
            exception_handlers={HTTPException: _http_error, NotAnswered: _not_answered},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        is_merged = path == GROUPS or path.startswith((f"{GROUPS}/", "/api/v1/share-groups/", LIVE))
        is_own = not is_merged or Request(scope).query_params.get("scope") == OWN_SCOPE
        await (self._own if is_own else self._routes)(scope, receive, send)

    # -- for programs -------------------------------------------------------------------------------------

    async def groups(self, request: Request) -> Response:
        """Return the groups of all brokers in short, a second old at most."""
        question = await question_from(request)

        async def make() -> object:
            told, silent = await self._ask_all(question)
            return await _in_thread(merging.groups, told, silent, self._brokers.without_coordinator())

        return _json_page(await self._kept.made("groups", make))

    async def group(self, request: Request) -> Response:
        """Return one group, as its coordinator has it."""
        question = await question_from(request)
        return passed_on(await self._of_coordinator(request.path_params["group_id"], question))

    async def share_group(self, request: Request) -> Response:
        """Return what all brokers know of a share group: its coordinator, and leaders of its partitions."""
        told, silent = await self._ask_all(await question_from(request))
        found = {each: answer for each, answer in told.items() if answer.status != NOT_FOUND}
        if found:
            return _json_page(msgspec.json.encode(await _in_thread(merging.share_group, found, silent)))
        group_id = request.path_params["group_id"]
        coordinator = self._brokers.coordinator(group_id).node_id
        if coordinator in silent:
            raise NotAnswered(
                UNAVAILABLE, _silence(coordinator, f"coordinates group {group_id}", silent[coordinator])
            )
        return passed_on(told[self._brokers.node_id])

    # -- for the live page --------------------------------------------------------------------------------

    async def write(self, request: Request) -> Response:
        """Have the coordinator of a group change it."""
        question = await question_from(request)
        if self._view_of_own.asks() is None:
            return passed_on(await answered(self._own, question))
        return passed_on(await self._of_coordinator(_group_of(question.body), question))

    async def messages(self, request: Request) -> ASGIApp:
        """Return some records of a partition, as its leader has them, or of all as their leaders do."""
        question = await question_from(request)
        if not self._view_of_own.shows_messages():
            return passed_on(await answered(self._own, question))
        try:
            asked = question_of(request.path_params["topic"], request.query_params)
        except ValueError:
            return passed_on(await answered(self._own, question))
        if asked.partition is None:
            return await self._messages_of_all(asked, question, request.scope)
        leader = self._brokers.leader(asked.topic, asked.partition)
        where = f"{asked.topic}-{asked.partition}"
        if leader < 0:
            return error_response(UNAVAILABLE, f"{where} has no leader now")
        if leader == self._brokers.node_id:
            return self._own  # It knows who asks, and tells the audit log.
        conversation = request.scope.get(CONVERSATION)
        host = "" if conversation is None else conversation.host
        self._view_of_own.looked_at(asked.topic, request.scope.get(USER, ""), host)
        return passed_on(await self._of(leader, question, f"leads {where}"))

    async def _messages_of_all(self, asked: Records, question: Question, scope: Scope) -> Response:
        """Return records of all partitions of a topic, each searched by its leader."""
        who = {each: scope[each] for each in (CONVERSATION, USER) if each in scope}
        told, silent = await self._ask_all(question, who)
        own = told[self._brokers.node_id]
        if own.status != OK:
            return passed_on(own)
        sound = {each: answer for each, answer in told.items() if answer.status == OK}
        refused = {each: _error_of(answer) for each, answer in told.items() if answer.status != OK}
        merged = await _in_thread(merging.live_messages, sound, {**silent, **refused}, asked)
        return _json_page(await trio.to_thread.run_sync(msgspec.json.encode, merged))

    async def look(self, request: Request) -> ASGIApp:
        """Return a view as JSON."""
        question = await question_from(request)
        parameters = _parameters(request)
        page = await self._feeds.made(
            key_of(request.path_params["view"], parameters),
            lambda: self._view(request.path_params["view"], parameters, question),
        )
        return _json_page(page)

    async def feed(self, request: Request) -> ASGIApp:
        """Return a view as events without an end."""
        name, parameters = request.path_params["view"], _parameters(request)
        question = msgspec.structs.replace(await question_from(request), path=f"{LIVE}{name}")
        if name != "group" and name not in MERGED_VIEWS:
            return error_response(NOT_FOUND, f"there is no view {name}")

        async def make() -> object:
            try:
                return await self._view(name, parameters, question)
            except NotAnswered as error:  # It may come, or come back.
                return {"error": str(error)}

        return FeedResponse(self._feeds, key_of(f"{name}, or not", parameters), make)

    async def _view(self, name: str, parameters: Mapping[str, str], question: Question) -> object:
        """Return a view of the cluster. Raises: NotAnswered."""
        if name == "history" and parameters.get("kind") != TOPIC:
            found = await self._of_coordinator(parameters.get("name", ""), question)
            return msgspec.Raw(_body(found))
        if name == "group":
            found = await self._of_coordinator(parameters.get("id", ""), question)
            return msgspec.Raw(_body(found))
        if name not in MERGED_VIEWS:
            return msgspec.Raw(_body(await answered(self._own, question)))
        told, silent = await self._ask_all(question)
        own = told[self._brokers.node_id]
        if own.status != OK:
            return msgspec.Raw(_body(own))
        sound = {each: answer for each, answer in told.items() if answer.status == OK}
        return await _in_thread(MERGED_VIEWS[name], sound, silent, self._brokers.node_id, parameters)

    # -- asking -------------------------------------------------------------------------------------------

    async def _of_coordinator(self, group_id: str, question: Question) -> Answer:
        """Return what the coordinator of a group answers. Raises: NotAnswered."""
        partition, node_id = self._brokers.coordinator(group_id)
        if node_id < 0:
            where = f"__consumer_offsets-{partition} has no leader"
            raise NotAnswered(UNAVAILABLE, f"no broker coordinates group {group_id} now: {where}")
        return await self._of(node_id, question, f"coordinates group {group_id}")

    async def _of(self, node_id: int, question: Question, role: str) -> Answer:
        """Return what one broker answers. Raises: NotAnswered."""
        try:
            return await self._ask(node_id, question)
        except Silent as error:
            raise NotAnswered(UNAVAILABLE, _silence(node_id, role, str(error))) from error

    async def _ask_all(
        self, question: Question, who: Mapping[str, object] | None = None
    ) -> tuple[Told, Mapping[int, str]]:
        """Return what brokers answer, and why others do not, by their ids. This one is told who asks."""
        told: dict[int, Answer] = {}
        silent: dict[int, str] = {}

        async def ask(node_id: int) -> None:
            try:
                answer = await self._ask(node_id, question, who)
            except Silent as error:
                silent[node_id] = str(error)
                return
            if answer.status >= SERVERS_FAULT and node_id != self._brokers.node_id:
                silent[node_id] = _error_of(answer)
            else:
                told[node_id] = answer

        async with trio.open_nursery() as nursery:
            for node_id in (self._brokers.node_id, *self._brokers.others()):
                nursery.start_soon(ask, node_id)
        return dict(sorted(told.items())), dict(sorted(silent.items()))

    async def _ask(self, node_id: int, question: Question, who: Mapping[str, object] | None = None) -> Answer:
        """Return what one broker alone answers. Raises: Silent."""
        if node_id == self._brokers.node_id:
            return await answered(self._own, question, who)
        headers = tuple(
            PageHeader(name=name, value=value)
            for name, value in question.headers
            if name.lower() in PASSED_HEADERS
        )
        told = await self._brokers.ask(
            node_id,
            BrokerPageRequest(
                method=question.method,
                path=question.path,
                query=question.query,
                headers=headers,
                body=question.body,
            ),
        )
        if told.status >= SERVERS_FAULT and not told.body:
            raise Silent(f"it answers {told.status}")
        return Answer(told.status, tuple((each.name, each.value) for each in told.headers), told.body)


def _parameters(request: Request) -> dict[str, str]:
    """Return what a view is asked for. Raises: NotAnswered where that is too long."""
    parameters = dict(request.query_params)
    if any(len(each) > PARAMETER_CHARACTERS_MAX for each in (*parameters, *parameters.values())):
        raise NotAnswered(400, f"a parameter may have {PARAMETER_CHARACTERS_MAX} characters")
    return parameters


def _body(told: Answer) -> bytes:
    """Return the JSON that a broker has answered. Raises: NotAnswered with what it refuses."""
    if told.status != OK:
        raise NotAnswered(told.status, _error_of(told))
    return told.body


def _error_of(told: Answer) -> str:
    """Return why a broker has refused."""
    return str(told.json().get("error", f"it answers {told.status}"))


def _group_of(body: bytes) -> str:
    """Return the group that a change is about; what cannot be read is refused by whoever gets it."""
    try:
        return msgspec.json.decode(body, type=_Change).group
    except msgspec.DecodeError:
        return ""


class _Change(msgspec.Struct):
    group: str = ""


def _silence(node_id: int, role: str, why: str) -> str:
    return f"broker {node_id} {role} and does not answer: {why}"


async def _in_thread(function: Callable[..., object], *arguments: object) -> object:
    return await trio.to_thread.run_sync(lambda: function(*arguments))


def _json_page(page: bytes) -> Response:
    return Response(page, media_type="application/json")


async def _not_answered(request: Request, error: Exception) -> Response:
    assert isinstance(error, NotAnswered)
    return error_response(error.status, str(error))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = error_response(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response
