"""Which record a forwarder begins with next, and what it says of itself meanwhile."""

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from kohort.client.values import ConsumerRecord
from kohort.queues.forward.backlog import Job
from kohort.queues.forward.forwarder import SETTLING_MAX, Forwarder
from kohort.queues.forward.routing import Condition, Route, RouteAction
from kohort.queues.forward.settings import Destination
from kohort.queues.forward.verdict import Action, Verdict

URL = "http://127.0.0.1:1/"


class Done:
    async def push(self, record: ConsumerRecord[bytes, bytes], attempt: int) -> Verdict:
        return Verdict(Action.DONE)


def forwarder_of(*routes: Route, **settings: object) -> Forwarder:
    destination = Destination(name="d", topic="t", url=URL, route=routes, **settings)  # type: ignore[arg-type]
    services = dict.fromkeys(destination.services, Done())
    return Forwarder(destination, Done(), routed=services, bootstrap_servers="127.0.0.1:1")


def records(count: int, header: str, begin: int = 0) -> Iterator[ConsumerRecord[bytes, bytes]]:
    now_ms = time.time_ns() // 1_000_000
    for offset in range(begin, begin + count):
        yield ConsumerRecord("t", 0, offset, now_ms, None, b"", ((header, b""),))


def begin_all(forwarder: Forwarder) -> list[Job]:
    found = []
    while (job := forwarder.begin_next()[0]) is not None:
        found.append(job)
    return found


@pytest.mark.parametrize("action", [RouteAction.DROP, RouteAction.DEAD])
@pytest.mark.parametrize("settings", [{"rate_max": 1}, {"concurrency_max": 1}, {"delay_ms": 60_000}])
def test_a_record_that_is_not_pushed_takes_nothing_of_the_services_limits(
    action: RouteAction, settings: dict[str, object]
) -> None:
    forwarder = forwarder_of(Route(name="r", when=(Condition(header="r"),), action=action), **settings)
    for record in (*records(20, "own"), *records(20, "r", begin=20)):
        forwarder._take(record)
    begun = begin_all(forwarder)
    assert sorted(each.record.offset for each in begun if each.verdict) == list(range(20, 40))
    assert len([each for each in begun if each.verdict is None]) == (0 if "delay_ms" in settings else 1)


def test_an_open_circuit_holds_no_record_that_is_not_pushed() -> None:
    forwarder = forwarder_of(
        Route(name="r", when=(Condition(header="r"),), action=RouteAction.DROP), failures_max=1
    )
    (own,) = records(1, "own")
    forwarder._take(own)
    (pushed,) = begin_all(forwarder)
    forwarder._learn(pushed, Verdict(Action.UNREACHED, is_failure=True), 1)
    for record in (*records(5, "own", begin=1), *records(5, "r", begin=6)):
        forwarder._take(record)
    assert [each.record.offset for each in begin_all(forwarder)] == list(range(6, 11))


def test_of_records_that_are_not_pushed_so_many_are_under_way_and_services_have_their_turn() -> None:
    forwarder = forwarder_of(Route(name="r", when=(Condition(header="r"),), action=RouteAction.DEAD))
    for record in (*records(SETTLING_MAX + 5, "r"), *records(3, "own", begin=1_000)):
        forwarder._take(record)
    begun = begin_all(forwarder)
    assert (len(begun), len([each for each in begun if each.verdict])) == (SETTLING_MAX + 3, SETTLING_MAX)


def test_services_have_their_turns_while_another_thread_asks_for_the_status() -> None:
    names = [f"r{number}" for number in range(8)]
    routes = [Route(name=each, when=(Condition(header=each),), url=URL) for each in names]
    forwarder = forwarder_of(*routes, concurrency_max=1)
    failures: list[BaseException] = []
    has_ended = threading.Event()

    def watch() -> None:
        try:
            while not has_ended.is_set():
                status = forwarder.status()
                assert status["concurrency_limit"] == 9
                assert list(status["routes"]) == names  # type: ignore[call-overload]
        except (RuntimeError, AssertionError) as error:
            failures.append(error)

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for turn in range(500):
            for number, name in enumerate(names):
                (record,) = records(1, name, begin=len(names) * turn + number)
                forwarder._take(record)
            begun = begin_all(forwarder)
            assert [each.route for each in begun] == names, "the one that was pushed to first is first again"
            for job in begun:
                forwarder._backlog.finish(job)
                forwarder._limits[job.route].running -= 1
    finally:
        sys.setswitchinterval(interval_s)
        has_ended.set()
        watcher.join()
    assert failures == []
