"""A member of a group in a process of its own, which does as it is told on standard input.

`join` comes first: it prints `ready` once it has its consumer, and joins when it is told so.
`stall SECONDS`: work for so long without a poll. `subscribe TOPIC...`. `rewind`: read again from the
beginning. `close`, or the end of the input: leave the group. A record `poison` ends the process at once, with
what came before it committed.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import msgspec

POLL_MS = 200
COMMIT_MS = 500
HEARTBEAT_MS = 1_500
METADATA_MS = 2_000
POISON = b"poison"
SESSION_MS = 10_000
"""Brokers take six seconds at least; two busy processors often let one wait for that long."""


class Job(msgspec.Struct):
    """Which member it is, by which library."""

    library: str
    bootstrap: str
    group: str
    client_id: str
    topics: list[str]
    pattern: str = ""
    instance: str | None = None
    session_ms: int = SESSION_MS
    poll_ms: int = 60_000
    strategy: str = "range"
    protocol: str = "classic"


def read_commands() -> queue.SimpleQueue[str]:
    commands: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            commands.put(line.strip())
        commands.put("close")

    threading.Thread(target=read, daemon=True).start()
    return commands


def is_to_join(commands: queue.SimpleQueue[str]) -> bool:
    """Say that the consumer is there, and return whether it is to join."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    return commands.get() == "join"


def settings_of(job: Job) -> dict[str, Any]:
    """Return the settings for which kafka-python and aiokafka have the same names."""
    return {
        "bootstrap_servers": job.bootstrap,
        "group_id": job.group,
        "client_id": job.client_id,
        "group_instance_id": job.instance,
        "session_timeout_ms": job.session_ms,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "max_poll_interval_ms": job.poll_ms,
        "metadata_max_age_ms": METADATA_MS,
        "auto_commit_interval_ms": COMMIT_MS,
        "auto_offset_reset": "earliest",
    }


def dotted_settings_of(job: Job, strategy: str) -> dict[str, Any]:
    """Return the settings for which librdkafka and Kafka's own client have the same names."""
    settings: dict[str, Any] = {
        "bootstrap.servers": job.bootstrap,
        "group.id": job.group,
        "client.id": job.client_id,
        "max.poll.interval.ms": job.poll_ms,
        "auto.commit.interval.ms": COMMIT_MS,
        "auto.offset.reset": "earliest",
    }
    if job.instance is not None:
        settings["group.instance.id"] = job.instance
    if job.protocol == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        settings |= {
            "session.timeout.ms": job.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": strategy,
        }
    return settings


class KafkaPython:
    """kafka-python.

    A poll lasts until there are records: the feed writes four times a second to each partition. A poll
    of kafka-python 3.0.12 that ends during a rebalance can lose it: a leader that rejoined because its
    metadata had changed takes no notice of the answer, and neither rejoins nor sends a heartbeat.
    """

    poll_ms = 60_000

    def __init__(self, job: Job) -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
        self._job = job
        self._consumer: Any = KafkaConsumer(
            **settings_of(job),
            partition_assignment_strategy=[assignors[job.strategy]],
        )

    def join(self) -> None:
        if self._job.pattern:
            self._consumer.subscribe(pattern=self._job.pattern)
        else:
            self._consumer.subscribe(topics=self._job.topics)

    def poll(self) -> None:
        for partition, records in self._consumer.poll(timeout_ms=self.poll_ms).items():
            for record in records:
                if record.value == POISON:
                    self._consumer.seek(partition, record.offset)
                    self._consumer.commit()
                    os._exit(1)

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics=topics)

    def rewind(self) -> None:
        self._consumer.seek_to_beginning()
        for partition in self._consumer.assignment():
            self._consumer.position(partition)
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class Librdkafka:
    """confluent-kafka. It stores the offset of each record: poison may be anywhere in what it polls."""

    def __init__(self, job: Job) -> None:
        from confluent_kafka import Consumer

        own = {
            "topic.metadata.refresh.interval.ms": METADATA_MS,
            "enable.auto.offset.store": False,
            "log_level": 0,
        }
        self._job = job
        self._consumer = Consumer({**dotted_settings_of(job, job.strategy), **own})

    def join(self) -> None:
        self._consumer.subscribe([self._job.pattern] if self._job.pattern else self._job.topics)

    def poll(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        for record in self._consumer.consume(100, POLL_MS / 1_000):
            if record.error() is not None:
                continue
            if record.value() == POISON:
                here = TopicPartition(str(record.topic()), record.partition() or 0, record.offset() or 0)
                self._consumer.commit(offsets=[here], asynchronous=False)
                os._exit(1)
            with suppress(KafkaException):  # The partition may be another's since.
                self._consumer.store_offsets(record)

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics)

    def rewind(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        owned = self._consumer.assignment()
        for each in owned:
            self._consumer.seek(TopicPartition(each.topic, each.partition, OFFSET_BEGINNING))
        zero = [TopicPartition(each.topic, each.partition, 0) for each in owned]
        self._consumer.commit(offsets=zero, asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def run(consumer: KafkaPython | Librdkafka, commands: queue.SimpleQueue[str]) -> None:
    if not is_to_join(commands):
        return
    consumer.join()
    while True:
        while not commands.empty():
            name, *words = commands.get().split()
            if name == "close":
                consumer.close()
                return
            if name == "stall":
                time.sleep(float(words[0]))
            elif name == "subscribe":
                consumer.subscribe(words)
            elif name == "rewind":
                consumer.rewind()
        consumer.poll()


async def run_aiokafka(job: Job, commands: queue.SimpleQueue[str]) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = AIOKafkaConsumer(
        **settings_of(job),
        rebalance_timeout_ms=job.poll_ms,
        partition_assignment_strategy=[assignors[job.strategy]],
    )
    if not await asyncio.to_thread(is_to_join, commands):
        return
    if job.pattern:
        consumer.subscribe(pattern=job.pattern)
    else:
        consumer.subscribe(topics=job.topics)
    await consumer.start()
    while True:
        while not commands.empty():
            name, *words = commands.get().split()
            if name == "close":
                await consumer.stop()
                return
            if name == "stall":
                await asyncio.sleep(float(words[0]))
            elif name == "subscribe":
                consumer.subscribe(topics=words)
            elif name == "rewind":
                await consumer.seek_to_beginning()
                await consumer.commit(dict.fromkeys(consumer.assignment(), 0))
        for partition, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
            for record in records:
                if record.value == POISON:
                    consumer.seek(partition, record.offset)  # Else a commit meanwhile goes past it.
                    await consumer.commit({partition: record.offset})
                    os._exit(1)


def main() -> None:
    job = msgspec.json.decode(sys.argv[1], type=Job)
    commands = read_commands()
    if job.library == "aiokafka":
        asyncio.run(run_aiokafka(job, commands))
    else:
        run(KafkaPython(job) if job.library == "kafka-python" else Librdkafka(job), commands)


if __name__ == "__main__":
    main()
