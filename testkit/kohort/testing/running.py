"""A broker in its own thread: start, stop, and calls from other threads."""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio

from kohort.broker import ephemeral
from kohort.broker.broker import Broker, running
from kohort.broker.config import BrokerConfig
from kohort.broker.http.server import serve_http
from kohort.broker.transport.addresses import Address, BrokerAddresses, bind
from kohort.testing.clock import MovableClock
from kohort.testing.errors import BrokerFailed
from kohort.testing.watch import Watch

T = TypeVar("T")

CALL_SECONDS_MAX = 30.0


class RunningBroker:
    """One run of a broker, from start to end. Any other thread may call it."""

    def __init__(
        self,
        config: BrokerConfig,
        folder: Path,
        clock: MovableClock,
        watch: Watch,
        *,
        kafka: Address,
        http: Address | None,
    ) -> None:
        """Return when it serves. Raises: the error of the start, such as StorageError and OSError."""
        self._config = config
        self._places = BrokerAddresses(listen=kafka, data=folder)
        self._clock = clock
        self._watch = watch
        self._http = http
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._pending: set[Future[object]] = set()  # Results for which other threads wait.
        self._ended = False
        self.http: Address | None = None
        self._thread = threading.Thread(target=self._run, name="kohort-broker", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    # -- the broker's thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            trio.run(self._serve, clock=self._clock)
        except BaseException as error:  # noqa: BLE001  # The next call raises it.
            self._error = _unwrap(error)
        finally:
            with self._lock:
                self._ended = True
                pending, self._pending = self._pending, set()
            for each in pending:
                each.cancel()
            self._ready.set()

    async def _serve(self) -> None:
        http = None if self._http is None else bind(self._http)
        self._stop = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        files = ephemeral.file_system()
        async with running(
            self._config, self._places, self._clock, files, between=self._watch.wrap_dispatch
        ) as broker:
            self.broker: Broker = broker
            self._watch.attach(broker)
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                if http is not None:
                    host, port = http.getsockname()[:2]
                    http.listen()  # The test may connect before the task runs.
                    self.http = Address(host, port)
                    nursery.start_soon(serve_http, broker.view(), http, (host,))
                self._ready.set()
                await self._stop.wait()
                self._watch.detach()  # Otherwise the stop would wait for the answers of held requests.
                nursery.cancel_scope.cancel()

    # -- other threads ----------------------------------------------------------------------------------

    @property
    def kafka(self) -> Address:
        """The address for clients."""
        return self.broker.listening[0]

    def call(self, function: Callable[[Broker], T]) -> T:
        """Call the function in the loop's thread, between two rounds. Raises: BrokerFailed."""
        answer: Future[T] = Future()
        return self._wait_for(
            answer, lambda: self.broker.mailbox.post(partial(_answer, answer, function, self.broker))
        )

    def call_async(self, function: Callable[[Broker], Awaitable[T]]) -> T:
        """Run the coroutine function in a task of the broker. Raises: BrokerFailed."""
        answer: Future[T] = Future()

        async def run() -> None:
            try:
                result = await function(self.broker)
            except Exception as error:  # noqa: BLE001  # The calling thread raises it.
                answer.set_exception(error)
            else:
                answer.set_result(result)

        def begin() -> None:
            try:
                self._nursery.start_soon(run)
            except RuntimeError:  # The broker is about to end.
                answer.cancel()

        return self._wait_for(answer, lambda: self._token.run_sync_soon(begin))

    def run_due_timers(self) -> None:
        """Return when every timer that is due now has run. Raises: BrokerFailed."""
        answer: Future[None] = Future()

        def set_last(broker: Broker) -> None:
            # Timers run in the order of their times: this one after all due timers.
            broker.timers.set("the test waits", self._clock.now_ms(), lambda: answer.set_result(None))

        self._wait_for(answer, lambda: self.broker.mailbox.post(partial(set_last, self.broker)))

    def _wait_for(self, answer: "Future[T]", begin: Callable[[], None]) -> T:
        with self._lock:
            if self._ended:
                raise BrokerFailed("the broker has ended") from self._error
            self._pending.add(answer)  # type: ignore[arg-type]  # Only to cancel it.
        try:
            begin()
            return answer.result(CALL_SECONDS_MAX)
        except TimeoutError:
            raise BrokerFailed(f"the broker did not answer within {CALL_SECONDS_MAX:.0f} s") from None
        except (CancelledError, trio.RunFinishedError):
            self._thread.join()  # Then `_error` is set.
            raise BrokerFailed("the broker has ended") from self._error
        finally:
            with self._lock:
                self._pending.discard(answer)

    def close(self) -> None:
        """Stop the broker cleanly. Raises: the broker's own error, if it has failed."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._stop.set)
        self._thread.join()
        if self._error is not None:
            raise self._error


def _answer(answer: "Future[T]", function: Callable[[Broker], T], broker: Broker) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        result = function(broker)
    except Exception as error:  # noqa: BLE001  # The calling thread raises it.
        answer.set_exception(error)
    else:
        answer.set_result(result)


def _unwrap(error: BaseException) -> BaseException:
    """Return the only error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
