"""Several observers in one process, a cluster each, with one store."""

from collections.abc import Sequence
from threading import Lock, Thread

from kohort.observe.observer import Observer


class SameClusterError(Exception):
    """Two names are of one cluster: both would tell its history into one store."""


class Observers:
    """Runs observers until `stop`. A cluster that does not answer disturbs no other."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self._lock = Lock()
        self._names: dict[str, str] = {}
        self._failures: list[BaseException] = []

    def stop(self) -> None:
        """Let `run` end. From any thread, or a signal's handler."""
        for each in self._observers:
            each.stop()

    def run(self) -> None:
        """Observe until `stop`.

        Raises: StoreError; SameClusterError; KohortError where the only cluster does not answer at the start.
        """
        if len(self._observers) == 1:
            self._observers[0].run()
            return
        threads = [
            Thread(target=self._run, args=(each,), name=f"kohort-observes-{each.name}")
            for each in self._observers
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if self._failures:
            raise self._failures[0]

    def _run(self, observer: Observer) -> None:
        try:
            observer.run(is_patient=True, found=lambda cluster_id: self._claim(cluster_id, observer.name))
        except BaseException as failure:  # noqa: BLE001  # `run` raises it.
            self._failures.append(failure)
            self.stop()

    def _claim(self, cluster_id: str, name: str) -> None:
        with self._lock:
            other = self._names.setdefault(cluster_id, name)
        if other != name:
            raise SameClusterError(f"{other} and {name} are the same cluster, {cluster_id}")
