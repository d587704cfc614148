"""The observer of one cluster: one thread follows `__consumer_offsets`, another asks at its pace."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from kohort.client import Admin, KohortError
from kohort.client.config import AdminOptions, ConsumerOptions
from kohort.observe.asking import Asker
from kohort.observe.cluster import ClusterQuestions
from kohort.observe.following import Follower
from kohort.observe.pace import FIRST_LOOK_CALLS, Limits, Pace, Stopped
from kohort.observe.store import Store
from kohort.observe.watched import Watched

log = logging.getLogger(__name__)

STARTING = "starting"
START_AGAIN_SECONDS = 5.0


class Target(NamedTuple):
    """A cluster by its name among others, and how its brokers are reached."""

    name: str
    reading: ConsumerOptions
    asking: AdminOptions


def cluster_name(servers: str | list[str]) -> str:
    """Return a name for a cluster that does not say its id: its bootstrap servers, sorted."""
    every = servers.split(",") if isinstance(servers, str) else servers
    return ",".join(sorted({each.strip() for each in every}))


class Observer:
    """Watches one cluster until `stop`. What others read meanwhile, they read under `watched.lock`."""

    def __init__(
        self,
        target: Target,
        store: Path,
        limits: Limits,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.name = target.name
        self.store_path = store
        self.watched = Watched(now_ms, limits.interval_seconds)
        self._options = target.reading
        self._admin_options = target.asking
        self._limits = limits
        self._stopping = Event()
        self._pace = Pace(limits.calls_per_second, self._stopping, FIRST_LOOK_CALLS)
        self._failure: BaseException | None = None
        """What ended the thread that asks, which nothing but `stop` should."""

    @property
    def bootstrap(self) -> str:
        """The brokers that are asked first, as --bootstrap-server has them."""
        servers = self._options.get("bootstrap_servers", "")
        return servers if isinstance(servers, str) else ",".join(servers)

    def stop(self) -> None:
        """Let `run` end. From any thread, or a signal's handler."""
        self._stopping.set()

    def run(self, *, is_patient: bool = False, found: Callable[[str], None] = lambda _: None) -> None:
        """Observe until `stop`; with `is_patient` also wait for a broker that answers.

        `found` is called with the cluster's id before anything is stored under it.

        Raises: KohortError where no broker answers at the start, StoreError.
        """
        while not self._stopping.is_set():
            try:
                self._run(found)
            except Stopped:
                return
            except KohortError as error:
                if not is_patient:
                    raise
                self.watched.status.note(STARTING, error)
                log.warning("%s: %s; trying again", self.name, error)
                self._stopping.wait(START_AGAIN_SECONDS)

    def _run(self, found: Callable[[str], None]) -> None:
        watched = self.watched
        with Admin(**self._admin_options) as admin:
            questions = ClusterQuestions(admin, self._pace, watched.now_ms)
            told_id = questions.cluster_id()
            watched.status.cluster_id = told_id or cluster_name(self._options.get("bootstrap_servers", ""))
            found(watched.status.cluster_id)
            store = Store(self.store_path)
            try:
                if not told_id:
                    store.rename(str(self._options.get("bootstrap_servers")), watched.status.cluster_id)
                watched.restore(store)
                asker = Asker(watched, questions, self._pace, self._limits, self._stopping)
                asker.ask()
                watched.status.note(STARTING)
                self._watch(asker, store)
                watched.save(store)
                if self._failure is not None:
                    raise self._failure
            finally:
                store.close()

    def _watch(self, asker: Asker, store: Store) -> None:
        asking = Thread(target=self._ask_until_stopped, args=(asker,), name="kohort-asks")
        asking.start()
        try:
            Follower(self.watched, self._options, store, self._limits, self._stopping).run()
        finally:
            self.stop()
            asking.join()

    def _ask_until_stopped(self, asker: Asker) -> None:
        try:
            asker.run()
        except BaseException as failure:  # noqa: BLE001  # `run` raises it.
            self._failure = failure
        finally:
            self.stop()
