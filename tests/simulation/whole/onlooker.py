"""Looks at what real brokers and their etcd do, where they do it, and tells it to the books."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch
from uuid import UUID

import msgspec

from kohort.broker.etcd.key_store import Entry, KeyStore
from kohort.broker.metadata.etcd_layout import PartitionValue
from kohort.broker.partitions.partition import Partition
from kohort.broker.replication.leadership import Leadership
from kohort.testing.simulation.etcd import SimulatedEtcd
from kohort.testing.simulation.simulated_broker import SimulatedBroker
from tests.simulation.whole.replication_books import Key, Lineage, ReplicationBooks

IN_ETCD = b"/partitions/"


class Onlooker:
    """Tells the books of brokers, by their node ids."""

    def __init__(self, books: ReplicationBooks, brokers: Mapping[int, SimulatedBroker]) -> None:
        self._books = books
        self._brokers = brokers

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Look within the block."""
        with ExitStack() as undone:
            for owner, name, see in (
                (KeyStore, "_add", self._see_change),
                (SimulatedEtcd, "restore", lambda *_: self._books.restored()),
                (Partition, "lead", self._see_leader),
                (Partition, "moved", self._see_move),
            ):
                undone.enter_context(patch.object(owner, name, _seen(getattr(owner, name), see)))
            advance = self._advance(Leadership._advance)
            undone.enter_context(patch.object(Leadership, "_advance", advance))
            yield

    def _see_change(self, store: KeyStore, entry: Entry) -> None:
        """See a change of a key, before it is made."""
        if IN_ETCD not in entry.key or entry.value is None:
            return
        before = store._at(entry.key, store.revision)
        if before is None or before.value is None:
            return
        old, new = _partition(before.value), _partition(entry.value)
        key = _key(entry.key)
        self._books.changed(key, old, new)
        for node_id in set(new.isr) - set(old.isr):
            partition = self._partition(key, node_id)
            if partition is not None:
                self._books.joins(key, node_id, partition.log.flushed_offset)

    def _partition(self, key: Key, node_id: int) -> Partition | None:
        """Return a partition of a broker that runs; None where there is none, or its log does not serve."""
        broker = self._brokers[node_id].broker
        partition = None if broker is None else broker.partitions.peek(UUID(key[0]), key[1])
        return None if partition is None or partition.serving_log is None else partition

    def _see_leader(self, partition: Partition, leadership: Leadership) -> None:
        key = str(partition.topic_id), partition.index
        node_id = leadership.node_id
        life = node_id, self._brokers[node_id].lives
        self._books.leads(key, leadership.state.leader_epoch, life)

    def _see_move(self, partition: Partition) -> None:
        """See the high watermark, before those who wait for it are told."""
        state = partition.leadership or partition.following
        if state is None or state.high_watermark == partition.high_watermark:
            return
        key = str(partition.topic_id), partition.index
        if not partition.durable:
            self._books.is_lax(key)
            return
        if "compact" in partition.config.cleanup_policy:
            return  # A leader epoch goes with the last record that was written under it.
        log, end = partition.log, state.high_watermark
        epochs = [each for each in log._epochs.entries if each[1] < end]
        self._books.shows(key, Lineage(log.log_start_offset, end, epochs), log.log_end_offset)
        if partition.leadership is not None:
            isr = partition.leadership.state.isr
            others = {each: self._partition(key, each) for each in isr}
            synced = {each: other.log.flushed_offset for each, other in others.items() if other is not None}
            self._books.commits(key, end, synced)

    def _advance(self, advance: Callable[[Leadership, int], bool]) -> Callable[[Leadership, int], bool]:
        @wraps(advance)
        def call(leadership: Leadership, now_ms: int) -> bool:
            before = leadership.high_watermark
            has_moved = advance(leadership, now_ms)
            after, state = leadership.high_watermark, leadership.state
            if after != before:
                enough = min(leadership.min_insync_replicas, len(state.replicas))
                self._books.advances(before, after, len(state.isr), enough)
            return has_moved

        return call


def _seen(function: Callable[..., Any], see: Callable[..., object]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        see(*arguments)
        return function(*arguments, **options)

    return call


def _partition(value: bytes) -> PartitionValue:
    return msgspec.json.decode(value, type=PartitionValue)


def _key(key: bytes) -> Key:
    """Return the topic's id and the index in a key of etcd's."""
    topic_id, index = key.rpartition(IN_ETCD)[2].decode().split("/")
    return topic_id, int(index)
