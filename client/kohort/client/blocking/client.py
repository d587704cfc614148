"""What every blocking client is: an asynchronous client, and a thread that runs its event loop.

A method of the asynchronous client becomes one of the blocking client, with its signature and docstring, by

    commit = blocking(aio.Consumer.commit)      # Waits until the loop has run it.
    seek = in_loop(aio.Consumer.seek)           # The same for a plain function.
    paused = directly(aio.Consumer.paused)      # A plain function that any thread may call.
"""

from collections.abc import Awaitable, Callable
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from kohort.client.async_client import AsyncClient
from kohort.client.loop_thread import LoopThread, close_at_exit
from kohort.client.unclosed import end_soon

Client_co = TypeVar("Client_co", bound=AsyncClient[Any], covariant=True)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def blocking(
    method: Callable[Concatenate[Any, Arguments], Awaitable[Result]],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Return a method that runs the asynchronous client's `method` in its loop, and waits for the result."""

    def call(self: "BlockingClient[Any]", /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return self._loop.call(method, self._client, *args, **kwargs)

    return update_wrapper(call, method)


def in_loop(
    method: Callable[Concatenate[Any, Arguments], Result],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Return a method that runs the asynchronous client's plain `method` in its loop."""

    def call(self: "BlockingClient[Any]", /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return self._loop.call_sync(method, self._client, *args, **kwargs)

    return update_wrapper(call, method)


def directly(
    method: Callable[Concatenate[Any, Arguments], Result],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Return a method that runs the asynchronous client's plain `method` in the thread that calls it."""

    def call(self: "BlockingClient[Any]", /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return method(self._client, *args, **kwargs)

    return update_wrapper(call, method)


class BlockingClient(Generic[Client_co]):
    """A blocking client. Its loop runs in a separate thread, or in that of a shared connection."""

    def __init__(
        self,
        client: Client_co,
        thread_name: str,
        shared: "BlockingClient[Any] | None" = None,
        forked: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._loop: LoopThread[Any] = LoopThread(
            client._session, thread_name, forked, host=None if shared is None else shared._loop
        )
        self._shared = shared  # As long as this client is held, its connection is.
        self._is_closing = False
        self._not_at_exit = close_at_exit(self._close)

    def __repr__(self) -> str:
        state = "" if self._loop.is_running else "closed "
        return repr(self._client).replace("<aio.", f"<{state}")

    def __del__(self) -> None:
        if "_not_at_exit" in self.__dict__ and self._loop.is_running and not self._is_closing:
            self._not_at_exit()
            session = self._client._session
            end_soon(self, self._loop, session.finish, session.finish_timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._not_at_exit()
        self._loop.stop()

    metrics = directly(AsyncClient.metrics)
