"""Takes the records of `__consumer_offsets`, one after another, and returns what happened in groups. Pure."""

from collections.abc import Iterator

import msgspec

from kohort.broker.explain.observed.events import AnyObserved
from kohort.client.batches import FetchedBatch
from kohort.observe.batches import BEGINNING, Commits
from kohort.observe.epochs import Epochs, SavedEpochs
from kohort.observe.facts import Facts
from kohort.observe.generations import snapshot_of
from kohort.observe.group import ObservedGroup, SavedGroup, commit_each
from kohort.observe.kinds import CONSUMER, change_of, kind_of
from kohort.observe.places import Place
from kohort.protocol.errors import WireError
from kohort.protocol.offsets_topic import (
    GroupMetadataRecord,
    ModernGroupRecord,
    OffsetCommitRecord,
    decode_record,
)
from kohort.protocol.records.reader import iterate_payload

_OFFSET, _OFFSET_BYTES = BEGINNING.unpack_from, BEGINNING.size
_ENCODE = msgspec.msgpack.Encoder().encode


FORMAT = 3
"""Of what is stored of a group. Another kohort's is not read: the log has it all."""


class Saved(msgspec.Struct, array_like=True):
    """A group with all that is stored of it."""

    format: int
    group: SavedGroup
    epochs: SavedEpochs | None


_DECODER = msgspec.msgpack.Decoder(Saved)


class Records:
    """Follows all groups. `facts` is what else is known of the cluster, and may grow."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.groups: dict[str, ObservedGroup] = {}
        self.records = 0
        self.undecoded = 0
        self._epochs: dict[str, Epochs] = {}
        self._places: dict[bytes, tuple[ObservedGroup, Place]] = {}
        self._commits = Commits(self._places)
        self._changed: set[str] = set()

    def take_batch(self, batch: FetchedBatch) -> int:
        """Take a batch of records, all or none; return the time of the newest one. Raises: WireError."""
        header, data = batch.header, batch.records
        if header.base_offset >= batch.from_offset:
            found = self._commits.of(header, data)
            if found is not None:
                self.records += header.record_count
                newest_ms = 0
                for at_ms, commits in found:
                    commit_each(commits, at_ms, self._changed, is_transactional=header.is_transactional)
                    newest_ms = max(newest_ms, at_ms)
                return newest_ms
        newest_ms = 0
        for each in [*iterate_payload(data, header)]:  # As a whole first: all of the batch, or nothing.
            if each.key is not None and each.offset >= batch.from_offset:
                self.take(each.key, each.value, each.timestamp, is_transactional=header.is_transactional)
                newest_ms = max(newest_ms, each.timestamp)
        return newest_ms

    def take(self, key: bytes, value: bytes | None, at_ms: int, *, is_transactional: bool = False) -> None:
        """Take one record."""
        self.records += 1
        known = self._places.get(key)
        if known is not None and value is not None and len(value) >= _OFFSET_BYTES:
            commits = [(known, _OFFSET(value)[1])]
            commit_each(commits, at_ms, self._changed, is_transactional=is_transactional)
            return
        try:
            record = decode_record(key, value)
        except WireError:  # Of a newer Kafka: it is passed over and counted.
            self.undecoded += 1
            return
        if isinstance(record, OffsetCommitRecord):
            self._offset(key, record, at_ms, is_transactional)
        elif isinstance(record, GroupMetadataRecord):
            self._generation(record, at_ms)
        elif isinstance(record, ModernGroupRecord):
            self._epoch(record, at_ms)

    def _offset(self, key: bytes, record: OffsetCommitRecord, at_ms: int, is_transactional: bool) -> None:
        of, value = record.key, record.value
        group = self.group(of.group)
        if value is None:
            if self._places.pop(key, None) is not None:
                self._commits.forget()
            group.remove(of.topic, of.partition, at_ms)
            return
        if value.topic_id.int:
            self.facts.topic_names.setdefault(value.topic_id, of.topic)
        place = group.commit(of.topic, of.partition, value.offset, at_ms, is_transactional=is_transactional)
        if key in self._places:
            self._commits.forget()
        self._places[key] = group, place

    def _generation(self, record: GroupMetadataRecord, at_ms: int) -> None:
        group_id = record.key.group
        group = self.group(group_id)
        if record.value is None:
            if not group.is_by_broker:  # Else the group has another type since.
                group.removed(at_ms)
            return
        self._epochs.pop(group_id, None)
        group.is_by_broker, group.kind = False, CONSUMER
        group.become(snapshot_of(record.value, at_ms))

    def _epoch(self, record: ModernGroupRecord, at_ms: int) -> None:
        """Take a record of a consumer, share or streams group."""
        kind, change = kind_of(record.key), change_of(record.key, record.value)
        if change is None:
            return
        group_id = getattr(record.key, "group_id", "")
        group = self.group(group_id)
        epochs = self._epochs.get(group_id)
        if epochs is None or (epochs.state.kind != kind and record.value is not None):
            epochs = self._epochs[group_id] = Epochs(group, self.facts, kind)
        if epochs.state.kind == kind:  # Else it removes a record of the kind that the group had before.
            epochs.take(change, at_ms)

    def group(self, group_id: str) -> ObservedGroup:
        """Return the group, made where it is not known, and note that it changes."""
        self._changed.add(group_id)
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ObservedGroup(group_id, self.facts)
        return group

    def name_topics(self) -> None:
        """Use names of topics that `facts` has learned."""
        for group_id, epochs in self._epochs.items():
            if epochs.state.unnamed & self.facts.topic_names.keys():
                epochs.name_topics()
                self._changed.add(group_id)

    def settle(self, now_ms: int) -> None:
        """Tell what nothing more can belong to as of this time."""
        for group_id in tuple(self._changed):
            epochs = self._epochs.get(group_id)
            if epochs is not None:
                epochs.settle(now_ms)
            self.groups[group_id].settle(now_ms)

    def drain(self) -> Iterator[tuple[str, bytes | None, list[AnyObserved]]]:
        """Yield each group that has changed since the last time: its state, None for gone, and its events."""
        self._forget_dropped()
        changed, self._changed = self._changed, set()
        for group_id in changed:
            group, epochs = self.groups[group_id], self._epochs.get(group_id)
            if group.is_nothing and (epochs is None or epochs.is_nothing):
                group.settle()  # The group is forgotten: it tells now what it holds.
                del self.groups[group_id]
                self._epochs.pop(group_id, None)
                yield group_id, None, group.events
                continue
            events, group.events = group.events, []
            if self._has_more(group_id):
                self._changed.add(group_id)  # It has more to tell, without another record.
            saved = Saved(FORMAT, group.saved(), None if epochs is None else epochs.state)
            yield group_id, _ENCODE(saved), events

    def _forget_dropped(self) -> None:
        """Look up no place that its group has dropped: the next commit makes a new one."""
        dropped = [self.groups[each] for each in self._changed if self.groups[each].has_dropped_places]
        if not dropped:
            return
        for group in dropped:
            group.has_dropped_places = False
        self._places = {
            key: (group, place)
            for key, (group, place) in self._places.items()
            if group.places.get((place.topic, place.partition)) is place
        }
        self._commits = Commits(self._places)

    def restore(self, group_id: str, state: bytes) -> None:
        """Go on with a group from what `drain` gave. Raises: msgspec.DecodeError for another format."""
        saved = _DECODER.decode(state)
        if saved.format != FORMAT:
            raise msgspec.ValidationError(f"format {saved.format}")
        group = ObservedGroup(group_id, self.facts)
        group.restore(saved.group)
        self.groups[group_id] = group
        if saved.epochs is not None:
            self._epochs[group_id] = Epochs(group, self.facts, saved.epochs)
            self._epochs[group_id].own()
        if self._has_more(group_id):
            self._changed.add(group_id)

    def _has_more(self, group_id: str) -> bool:
        epochs = self._epochs.get(group_id)
        return not self.groups[group_id].is_settled or (epochs is not None and epochs.state.is_pending)
