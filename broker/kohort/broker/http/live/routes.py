"""The live page's paths: its files, its views as JSON, and each view as a feed of events."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from kohort.broker.http.conversation import CONVERSATION
from kohort.broker.http.guard import USER, error_response
from kohort.broker.http.live import groups, topics, writes
from kohort.broker.http.live.access import access_view
from kohort.broker.http.live.decoding import Datum, RecordDecoder
from kohort.broker.http.live.feed import FeedResponse, Feeds, key_of
from kohort.broker.http.live.health import health_view
from kohort.broker.http.live.history import GROUP, TOPIC, History, history_view
from kohort.broker.http.live.messages import Searches, TooMany, question_of
from kohort.broker.http.live.transactions import transactions_view
from kohort.broker.http.page_files import POLICY, page_file
from kohort.broker.http.view import View

PARAMETER_CHARACTERS_MAX = 1_000

Parameters = Mapping[str, str]


class NotThere(Exception):
    """What a view is asked of does not exist, or is not known yet."""

    def __init__(self, reason: str, status: int = 404) -> None:
        super().__init__(reason)
        self.status = status


class LivePage:
    """One method a route."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._feeds = Feeds()
        self._searches = Searches()
        self._history = view.part("history of the page", lambda: History(view))
        self._views: dict[str, Callable[[Parameters], Awaitable[object]]] = {
            "groups": lambda given: groups.list_view(view, given, self._history),
            "group": self._group,
            "topics": lambda given: topics.list_view(view, given, self._history),
            "topic": self._topic,
            "history": self._samples,
            "transactions": self._transactions,
            "access": lambda _: access_view(view),
            "health": self._health,
        }

    async def asset(self, request: Request) -> Response:
        """Return one of its files."""
        return _file(request.path_params["name"])

    async def look(self, request: Request) -> ASGIApp:
        """Return a view as JSON."""
        return await self._answered(request, self._json)

    async def feed(self, request: Request) -> ASGIApp:
        """Return a view as events without an end."""
        return await self._answered(request, self._events)

    async def messages(self, request: Request) -> Response:
        """Return some records of a partition, or of all that are led here."""
        if not self._view.shows_messages():
            return error_response(403, "records are not shown: see kohort.http.messages.enable")
        topic = request.path_params["topic"]
        try:
            asked = question_of(topic, request.query_params)
        except ValueError as error:
            return error_response(400, str(error))
        if asked.partition is None and self._view.topic(topic) is None:
            return error_response(404, f"there is no topic {topic}")
        conversation = request.scope.get(CONVERSATION)
        host = "" if conversation is None else conversation.host
        self._view.looked_at(topic, request.scope.get(USER, ""), host)
        try:
            found = await self._searches.look(self._view, asked)
        except TooMany as error:
            return error_response(503, str(error))
        if found is None:
            return error_response(404, f"{topic}-{asked.partition} is not here, or offline")
        await self._decode(found.data)
        page = await trio.to_thread.run_sync(msgspec.json.encode, found.told)
        return Response(page, media_type="application/json")

    async def _decode(self, data: Sequence[Datum]) -> None:
        """Have keys and values decoded that begin with the id of a schema, if there is a schema registry."""
        urls = self._view.schema_registry()
        if urls is not None and any(each.has_schema for each in data):
            decoder = self._view.part("decoder of records", lambda: RecordDecoder(urls))
            await decoder.decode(data)

    async def write(self, request: Request) -> Response:
        """Change something, where that is allowed."""
        return await writes.write(self._view, request)

    async def _answered(
        self, request: Request, answer: Callable[[str, Parameters], Awaitable[ASGIApp]]
    ) -> ASGIApp:
        name = request.path_params["view"]
        parameters = dict(request.query_params)
        if name not in self._views:
            return error_response(404, f"there is no view {name}")
        if any(len(each) > PARAMETER_CHARACTERS_MAX for each in (*parameters, *parameters.values())):
            return error_response(400, f"a parameter may have {PARAMETER_CHARACTERS_MAX} characters")
        try:
            return await answer(name, parameters)
        except NotThere as error:
            return error_response(error.status, str(error))

    async def _json(self, name: str, parameters: Parameters) -> ASGIApp:
        page = await self._feeds.made(key_of(name, parameters), lambda: self._views[name](parameters))
        return Response(page, media_type="application/json")

    async def _events(self, name: str, parameters: Parameters) -> ASGIApp:
        async def make() -> object:
            try:
                return await self._views[name](parameters)
            except NotThere as error:  # It may come, or come back.
                return {"error": str(error)}

        return FeedResponse(self._feeds, key_of(f"{name}, or not", parameters), make)

    async def _group(self, parameters: Parameters) -> object:
        group_id = parameters.get("id", "")
        group = self._view.group(group_id)
        if group is None:
            if self._view.is_loading(group_id):
                raise NotThere(f"the groups that {group_id} is among are being loaded: try again", 503)
            raise NotThere(f"there is no group {group_id}")
        self._history.want(GROUP, [group_id])
        return await groups.group_view(self._view, group, time.time_ns() // 1_000_000)

    async def _topic(self, parameters: Parameters) -> object:
        name = parameters.get("name", "")
        topic = self._view.topic(name)
        if topic is None:
            raise NotThere(f"there is no topic {name}")
        self._history.want(TOPIC, [name])
        return await topics.topic_view(self._view, topic)

    async def _samples(self, parameters: Parameters) -> object:
        return history_view(self._history, parameters)

    async def _transactions(self, parameters: Parameters) -> object:
        return await transactions_view(self._view, time.time_ns() // 1_000_000)

    async def _health(self, parameters: Parameters) -> object:
        return await health_view(self._view)


def _file(name: str) -> Response:
    found = page_file(name)
    if found is None:
        return error_response(404, f"there is no {name}")
    headers = {"content-security-policy": POLICY}
    return Response(found.body, media_type=found.content_type, headers=headers)


def index() -> Response:
    """Return the page itself."""
    return _file("index.html")


def routes(view: View) -> list[Route]:
    """Return the routes of the page's files and of its views."""
    page = LivePage(view)
    return [
        Route("/page/{name}", page.asset, methods=["GET"]),
        Route("/api/v1/live/write", page.write, methods=["POST"]),
        Route("/api/v1/live/messages/{topic}", page.messages, methods=["GET"]),
        Route("/api/v1/live/{view}", page.look, methods=["GET"]),
        Route("/api/v1/live/{view}/events", page.feed, methods=["GET"]),
    ]
