"""The pages of several clusters: each under its name, and pages about all of them."""

from collections.abc import Callable, Sequence
from urllib.parse import unquote, urlsplit

from kohort.observe.alerting import Alerting
from kohort.observe.group_json import Json
from kohort.observe.observer import Observer
from kohort.observe.pages import (
    GROUP_PREFIX,
    PATHS,
    Answer,
    Pages,
    alerts_page,
    answer_json,
    prometheus_page,
    ready_page,
    wall_ms,
)

NAMED_PATHS = {
    **PATHS,
    "/api/v1/clusters": "the clusters, and how each observer is",
    "/api/v1/groups": "every group of every cluster in short",
    "/CLUSTER/api/v1/...": "the pages of one cluster",
}


class Site:
    """Answers paths where each observer has a name."""

    def __init__(
        self,
        observers: Sequence[Observer],
        now_ms: Callable[[], int] = wall_ms,
        alerting: Alerting | None = None,
    ) -> None:
        self._alerting = alerting
        self._observers = {each.name: each for each in observers}
        self._pages = {each.name: Pages(each, now_ms, alerting) for each in observers}
        self._now_ms = now_ms

    def page(self, target: str) -> Answer:
        """Return the answer for a path with its query."""
        path = urlsplit(target).path
        observers = [*self._observers.values()]
        fixed: dict[str, Callable[[], Answer]] = {
            "/": lambda: answer_json({"kohort": "observe", "paths": NAMED_PATHS, "clusters": [*self._pages]}),
            "/metrics": lambda: prometheus_page(observers, self._now_ms(), self._alerting),
            "/api/v1/alerts": lambda: alerts_page(self._alerting),
            "/health/live": lambda: answer_json({"status": "live"}),
            "/health/ready": lambda: ready_page(observers),
            "/api/v1/clusters": lambda: answer_json([_summary(each) for each in observers]),
            "/api/v1/live/clusters": lambda: answer_json({"clusters": [*map(_summary, observers)]}),
            "/api/v1/groups": lambda: answer_json(self._groups()),
        }
        if path in fixed:
            return fixed[path]()
        if path.startswith(GROUP_PREFIX):
            return self._group(target, unquote(path.removeprefix(GROUP_PREFIX)))
        name, _, rest = target.removeprefix("/").partition("/")
        if unquote(name) in self._pages:
            return self._pages[unquote(name)].page(f"/{rest}")
        return answer_json({"error": f"there is no page {path}"}, 404)

    def _groups(self) -> list[Json]:
        return [{"cluster": name, **each} for name, pages in self._pages.items() for each in pages.groups()]

    def _group(self, target: str, group_id: str) -> Answer:
        """Return a group of the only cluster that has it."""
        answers = {name: pages.page(target) for name, pages in self._pages.items()}
        found = {name: each for name, each in answers.items() if each.status == 200}
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            names = " and ".join(found)
            error = (
                f"{names} have a group {group_id}: ask for one, as by --http HOST:PORT/{next(iter(found))}"
            )
            return answer_json({"error": error}, 409)
        return max(answers.values(), key=lambda each: each.status)


def _summary(observer: Observer) -> Json:
    status = observer.watched.status
    return {
        "name": observer.name,
        "cluster_id": status.cluster_id,
        "is_ready": status.is_ready,
        "reads_records": status.reads_records,
        "problem": status.problem,
        "groups": len(observer.watched.records.groups),
        "brokers": observer.watched.look.brokers,
    }
