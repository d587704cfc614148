"""Feeds of events for browsers: a view is made every two seconds, and sent if it has changed.

A view is made once for all browsers that show it. A feed ends by itself after a while, and the browser asks
again, so that no browser holds a connection for ever. Source: HTML, Server-sent events.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import msgspec
import trio
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from kohort.broker.http.guard import error_response
from kohort.broker.http.keeping import KeptPages, Make

INTERVAL_SECONDS = 2.0
FEED_SECONDS = 50.0
FEEDS_MAX = 12
"""Open at once, of the connections that HTTP has."""


class Feeds:
    """The views that were made recently, and the number of open feeds."""

    def __init__(self) -> None:
        self.open = 0
        self._pages = KeptPages()

    async def made(self, key: str, make: Make) -> bytes:
        """Return the view as JSON, at most one second old. Concurrent requests for the same view share it."""
        return await self._pages.made(key, make)

    async def events(self, key: str, make: Make) -> AsyncIterator[bytes]:
        """Yield the events of one feed: the view at once, and again whenever it differs."""
        yield b"retry: 500\n\n"
        last = b""
        end = trio.current_time() + FEED_SECONDS
        while trio.current_time() < end:
            page = await self.made(key, make)
            # JSON has no line breaks; a comment shows whether the browser is still there.
            yield b":\n\n" if page == last else b"data: " + page + b"\n\n"
            last = page
            await trio.sleep(INTERVAL_SECONDS)


class FeedResponse:
    """An answer that is a feed, or a refusal if there are too many feeds."""

    def __init__(self, feeds: Feeds, key: str, make: Make) -> None:
        self._feeds = feeds
        self._key = key
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; returns when the feed ends or the browser is gone."""
        if self._feeds.open >= FEEDS_MAX:
            await error_response(503, "too many look on already")(scope, receive, send)
            return
        self._feeds.open += 1
        try:
            events = self._feeds.events(self._key, self._make)
            response = StreamingResponse(events, media_type="text/event-stream")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_end_when_gone, receive, nursery.cancel_scope)
                # Caught in here: the nursery would wrap it, and nobody behind looks into groups.
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await response(scope, receive, send)
                nursery.cancel_scope.cancel()
        finally:
            self._feeds.open -= 1


async def _end_when_gone(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel when the browser has closed: a browser that opens another view closes its feed."""
    while (await receive())["type"] != "http.disconnect":
        continue
    scope.cancel()


def key_of(name: str, parameters: Mapping[str, str]) -> str:
    """Return a key that is different for each view."""
    return msgspec.json.encode([name, sorted(parameters.items())]).decode()
