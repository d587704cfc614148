"""A share group under kill -9 of its members and of the broker: each record is acknowledged at least once.

ROUNDS kills (2 unless told), the moments by SEED. Members are Kafka's own KafkaShareConsumer.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections import Counter
from itertools import count
from pathlib import Path
from random import Random

import pytest
import trio
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from kohort.broker.coordination.test_shard import Client
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import MissingTool
from tests.interop.share_members import ShareMember, configure, java_share_member
from tests.interop.waiting import wait_until

ROUNDS = int(os.environ.get("ROUNDS", "2"))
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
TOPIC, GROUP = "jobs", "workers"
PARTITIONS = 2
LIMIT = 10
PAUSE_S = 0.02
STANDSTILL_S = 60.0


class Stream:
    """A producer that writes numbered jobs until it is told to stop; it keeps what is acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[str] = []
        self._ends = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return once all that was written is acknowledged."""
        self._ends.set()
        self._thread.join()
        assert not self._producer.flush(STANDSTILL_S)

    def _run(self) -> None:
        for number in count():
            if self._ends.wait(PAUSE_S):
                return
            value = f"job-{number}"

            def told(error: object, _message: object, value: str = value) -> None:
                assert error is None, error
                self.acknowledged.append(value)

            self._producer.produce(TOPIC, value.encode(), on_delivery=told)
            self._producer.poll(0)


def lag(address: tuple[str, int]) -> int | None:
    """Return how many records are ahead of the group; None where somebody can't say."""

    async def ask() -> int | None:
        client = Client(await trio.open_tcp_stream(*address))
        group = DescribeShareGroupOffsetsGroup(group_id=GROUP, topics=None)
        request = DescribeShareGroupOffsetsRequest(groups=(group,))
        (described,) = (await client.ask(request, DescribeShareGroupOffsetsResponse)).groups
        lags = [each.lag for topic in described.topics for each in topic.partitions]
        return None if described.error_code or len(lags) < PARTITIONS or min(lags) < 0 else sum(lags)

    return trio.run(ask)


@pytest.mark.requirement("R32")
def test_each_record_is_acknowledged_at_least_once_despite_kills(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(SEED)
    broker = BrokerProcess(
        tmp_path, "group.share.min.heartbeat.interval.ms=100", "group.share.min.record.lock.duration.ms=1000"
    )
    members: list[ShareMember] = []
    gone: list[ShareMember] = []
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(15)
        configure(
            broker.bootstrap,
            GROUP,
            share_record_lock_duration_ms="2000",
            share_delivery_count_limit=str(LIMIT),
            share_heartbeat_interval_ms="500",
        )
        try:
            members += [java_share_member(broker.bootstrap, GROUP, TOPIC) for _ in range(2)]
        except MissingTool as missing:
            pytest.skip(str(missing))
        stream = Stream(broker.bootstrap)
        wait_until(lambda: all(each.deliveries for each in members), "both are handed something")
        for number in range(ROUNDS):
            had = sum(len(each.deliveries) for each in members)
            wait_until(lambda: sum(len(each.deliveries) for each in members) > had, "more is handed out", 60)  # noqa: B023
            threading.Event().wait(random.random())
            if number % 2 == 0:
                victim = members.pop(random.randrange(len(members)))
                victim.kill()
                gone.append(victim)
                members.append(java_share_member(broker.bootstrap, GROUP, TOPIC))
            else:
                broker.kill()
                broker.start()
        stream.stop()
        wait_until(lambda: lag(broker.address) == 0, "everything is done with", STANDSTILL_S)
        for each in members:
            each.close()
    finally:
        for each in (*members, *gone):
            each.kill()
        broker.stop()
    deliveries = [delivery for each in (*members, *gone) for delivery in each.deliveries]
    times = Counter(each.value for each in deliveries)
    more, most = sum(times.values()) - len(times), max(each.deliveries for each in deliveries)
    with capsys.disabled():
        sys.stdout.write(
            f"\nshare group: {len(stream.acknowledged):,} jobs, {more} more deliveries, "
            f"{most} of one at most, {ROUNDS} kills (SEED={SEED})\n"
        )
    assert not set(stream.acknowledged) - times.keys()
    assert most < LIMIT, "none was given up"
    assert max(times.values()) <= 1 + 2 * ROUNDS
