from pathlib import Path

from kohort.observe.cluster import ClusterQuestions, Pace
from kohort.observe.observer import Limits, Observer


class Broken:
    """Questions that fail in a way that nobody foresaw."""

    def look(self, _facts: object) -> object:
        raise ZeroDivisionError


def test_the_observer_ends_when_the_thread_that_asks_fails(tmp_path: Path) -> None:
    servers = "127.0.0.1:1"
    observer = Observer(
        {"bootstrap_servers": servers}, {"bootstrap_servers": servers}, tmp_path / "o.db", Limits(0.01)
    )
    questions: ClusterQuestions = Broken()  # type: ignore[assignment]
    observer._ask_until_stopped(questions, Pace(100, observer._stopping))
    assert observer._stopping.is_set()
    assert isinstance(observer._failure, ZeroDivisionError)


def test_calls_keep_their_pace() -> None:
    class Clock:
        """An event that notes for how long it is waited for."""

        waited = 0.0

        def wait(self, seconds: float) -> bool:
            self.waited += seconds
            return False

    clock = Clock()
    pace = Pace(2.0, clock)  # type: ignore[arg-type]
    for _ in range(5):
        pace.wait()
    assert pace.calls == 5
    assert clock.waited > 1.9 + 1.4 + 0.9 + 0.4 - 0.5  # Nobody slept: each call waits for all before it.
