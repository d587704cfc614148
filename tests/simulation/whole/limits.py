"""Small limits, drawn from the seed: a run of two minutes then reaches what a real broker reaches in days.

What is a setting goes into `server.properties` or to the topic. Everything else is a constant of a module:
`in_place` changes these for one run, and the shipped ones are back behind it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

from kohort.broker import broker
from kohort.broker.composition import folder
from kohort.broker.config.load import load_config
from kohort.broker.coordination import (
    coordinator_shards,
    group_machine,
    led_share_partition,
    share_state_shards,
)
from kohort.broker.explain.history import HistoryRoom
from kohort.broker.handlers.data import fetch_reading
from kohort.broker.handlers.share import share_reading
from kohort.broker.metadata import GROUP_EVENTS_TOPIC
from kohort.broker.metadata.internal_topics import internal_topics
from kohort.broker.partitions import flusher
from kohort.broker.transport import answers, connection, file_range, peer
from kohort.client import NewTopic
from kohort.storage import cleaning, prefix, scan, segment, writable_log
from kohort.storage.journal import Journal

SMALL_SHARE = 0.75
"""How likely a limit is small. Else it is the shipped one."""


class Constant(NamedTuple):
    """A constant of a module, and small values of it."""

    module: ModuleType
    name: str
    values: tuple[int, ...]
    made_of: Callable[[int], Any] = int
    """What stands there for a value."""


CONSTANTS = (
    Constant(writable_log, "RECOVERY_STEP_BYTES", (700, 4_096)),
    Constant(share_state_shards, "PRUNED_BYTES_MIN", (300, 1_500)),
    Constant(coordinator_shards, "INLINE_LOAD_BYTES", (0, 4_096)),
    Constant(led_share_partition, "BATCHES_PER_WRITE_MAX", (1, 3)),
    Constant(flusher, "INLINE_BYTES_MAX", (0, 500)),
    Constant(flusher, "INLINE_LOGS_MAX", (0, 2)),
    Constant(cleaning, "RUN_BYTES", (150, 1_000)),
    Constant(scan, "_HEADER_CHUNK_BYTES", (100, 500)),
    Constant(scan, "_BATCH_CHUNK_BYTES", (100, 1_000)),
    Constant(prefix, "_CHUNK_BYTES", (100, 1_000)),
    Constant(segment, "_RECENT_BATCHES_MAX", (4, 16)),
    # Answers in pieces, of which some are sent from their files, and requests in pieces.
    Constant(fetch_reading, "COPIED_BYTES_MAX", (0, 150)),
    Constant(answers, "JOINED_BYTES", (0, 200)),
    Constant(peer, "JOINED_BYTES", (0, 200)),
    Constant(file_range, "STRETCH_BYTES", (50, 500)),
    Constant(connection, "RECEIVE_BYTES", (100, 1_000)),
    Constant(share_reading, "READ_BYTES_MAX", (200, 2_000)),
    Constant(share_reading, "STEP_BYTES", (100, 500)),
    Constant(broker, "Journal", (768, 4_096, 32_768), lambda size: partial(Journal, size_bytes=size)),
    Constant(folder, "segments_that_fit", (1, 8), lambda count: lambda: count),
    Constant(group_machine, "HistoryRoom", (1_500, 20_000), lambda size: partial(HistoryRoom, size)),
)
SETTINGS: dict[str, tuple[int | float, ...]] = {
    "log.cleaner.backoff.ms": (300, 3_000),
    "log.cleaner.min.cleanable.ratio": (0.01, 0.3),
    "log.cleaner.dedupe.buffer.size": (600, 5_000),
    "log.index.interval.bytes": (0, 200),
    "log.index.size.max.bytes": (96, 480),
    "log.initial.task.delay.ms": (500, 4_000),
    "log.retention.check.interval.ms": (1_000, 5_000),
    "log.segment.delete.delay.ms": (0, 3_000),
    "log.flush.offset.checkpoint.interval.ms": (1_000, 10_000),
    "log.flush.start.offset.checkpoint.interval.ms": (1_000, 10_000),
    "producer.id.expiration.ms": (100_000,),  # Longer than what was sent is on its way.
    "producer.id.expiration.check.interval.ms": (5_000,),
    "offsets.retention.minutes": (1,),
    "offsets.retention.check.interval.ms": (3_000,),
    "max.incremental.fetch.session.cache.slots": (0, 2),
    "connections.max.idle.ms": (10_000,),
    "fetch.max.bytes": (1_024,),
    "replica.fetch.max.bytes": (500, 5_000),
    "share.coordinator.state.topic.prune.interval.ms": (1_000, 5_000),
    "share.coordinator.snapshot.update.records.per.snapshot": (0, 4),
}
"""Settings of brokers, and small values of these."""
SEGMENT_BYTES = (600, 2_000, 8_000)
EVENTS_BYTES = 5_000  # How much of the events of groups is kept where segments are small.
SEGMENT_SETTING = "internal.segment.bytes"


class Limits:
    """The limits of the run of one seed."""

    def __init__(self, seed: int) -> None:
        random = Random(f"limits of {seed}")
        self._seed = seed
        self._constants = [
            (each, random.choice(each.values)) for each in CONSTANTS if random.random() < SMALL_SHARE
        ]
        self.settings = {
            name: str(random.choice(values))
            for name, values in SETTINGS.items()
            if random.random() < SMALL_SHARE
        }
        """The brokers' settings."""

    @property
    def told(self) -> str:
        """The small limits, for the story."""
        constants = [f"{each.name} {value}" for each, value in self._constants]
        return ", ".join([*constants, *(f"{name}={value}" for name, value in self.settings.items())])

    def topic_settings(self, topic: str) -> dict[str, str]:
        """Return the settings that give a topic small segments, if it has them."""
        random = Random(f"limits of {self._seed} for {topic}")
        return {SEGMENT_SETTING: str(random.choice(SEGMENT_BYTES))} if random.random() < SMALL_SHARE else {}

    def internal_topics(self, settings: Mapping[str, str], event_partitions: int) -> list[NewTopic]:
        """Return the brokers' own topics, as brokers with these settings create them, but for the limits."""
        found = []
        for each in internal_topics(load_config(None, tuple(settings.items()))):
            configs = {**each.configs, **self.topic_settings(each.name)}
            partitions = each.partition_count
            if each.name == GROUP_EVENTS_TOPIC:
                partitions = event_partitions
                configs |= {"retention.bytes": str(EVENTS_BYTES)} if SEGMENT_SETTING in configs else {}
            texts = {name: value for name, value in configs.items() if value is not None}
            found.append(NewTopic(each.name, partitions, each.replication_factor, configs=texts))
        return found

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Change the constants within the block."""
        with ExitStack() as undone:
            for each, value in self._constants:
                undone.enter_context(patch.object(each.module, each.name, each.made_of(value)))
            yield
