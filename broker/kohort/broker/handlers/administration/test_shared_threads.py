"""Requests that need threads, or wait for one: however many they are, the rest of the broker has threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.test_shard import Client, running
from kohort.broker.handlers.administration import describe_log_dirs
from kohort.broker.handlers.test_opening import MORE_THAN_THREADS
from kohort.broker.partitions.log_files import LogFiles
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kohort.protocol.schema import Message


class Held:
    """Calls of a function, held in their threads until they may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> None:
        self.may_go_on = threading.Event()
        self.count = 0
        original: Callable[..., Any] = getattr(place, name)

        def hold(*arguments: Any) -> Any:
            self.count += 1
            assert self.may_go_on.wait(20)
            return original(*arguments)

        monkeypatch.setattr(place, name, hold)


@pytest.fixture(params=["logs of new topics", "sizes of logs"])
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Held, bool]:
    is_new = request.param == "logs of new topics"
    place, name = (LogFiles, "create") if is_new else (describe_log_dirs, "_measured")
    return Held(monkeypatch, place, name), is_new


def asking(number: int, *, is_new: bool) -> Message:
    if not is_new:
        return DescribeLogDirsRequest(topics=None)
    topic = CreatableTopic(
        name=f"t-{number}", num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    return CreateTopicsRequest(topics=(topic,))


async def all_asked(broker: Broker, requests: list[Message]) -> list[Client]:
    """Return clients that have asked, once the broker has taken all of it."""
    clients = [await Client.to(broker) for _ in requests]
    for client, request in zip(clients, requests, strict=True):
        await client.send(client.frame(request)[0])
    with trio.fail_after(10):
        while sum(broker.request_counters.requests.values()) < len(requests):
            await trio.sleep(0.005)
    return clients


async def test_many_requests_leave_threads_to_the_rest_of_the_broker(
    tmp_path: Path, held: tuple[Held, bool]
) -> None:
    calls, is_new = held
    async with running(tmp_path) as broker:
        requests = [asking(each, is_new=is_new) for each in range(MORE_THAN_THREADS)]
        clients = await all_asked(broker, requests)
        topics = MORE_THAN_THREADS if is_new else 0
        try:
            with trio.fail_after(5):
                while not calls.count or len(broker.metadata.snapshot().topics) < topics:
                    await trio.sleep(0.005)
                assert await broker.workers.in_thread(int) == 0
        finally:
            calls.may_go_on.set()
        with trio.fail_after(20):
            for client in clients:
                assert await client.receive()
