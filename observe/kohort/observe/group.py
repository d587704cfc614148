"""One group as its records tell of it, and what happened in it. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from kohort.broker.explain.observed.events import (
    AnyObserved,
    Departure,
    GroupChanged,
    Grown,
    ObservedMember,
    OffsetMove,
    OffsetsRemoved,
    OffsetsSet,
    OwnedPartition,
    Resubscription,
    StaticMemberReturned,
)
from kohort.observe.facts import Facts
from kohort.observe.kinds import CONSUMER, SHARE
from kohort.observe.places import OWNED_KEPT, Activity, Place
from kohort.observe.snapshots import (
    TOLD_MAX,
    Snapshot,
    moved,
    resubscription,
    sharing_topics,
    subscribers,
)
from kohort.observe.standstills import Standstills

TOGETHER_MS = 1_000
"""Offsets that change within this time after each other are changed by one request."""
HELD_MS, HELD_MS_MAX = 60_000, 3_600_000
"""Offsets that are set again and again are told together, after this time at first, then ever more seldom."""
FORWARD_TOLD = 2
"""A consumer without a group commits again and again: of that the first times are told."""


class Burst(msgspec.Struct):
    """Offsets that are set or removed together, up to `until_ms`; `times` counts the requests."""

    at_ms: int
    until_ms: int
    moves: dict[str, OffsetMove] = {}
    newest_commit_ms: int = 0
    times: int = 1
    last_ms: int = 0
    is_transactional: bool = False

    def add(self, move: OffsetMove) -> None:
        """Take one more; of a partition that is set again the step backward counts."""
        place = f"{move.topic}-{move.partition}"
        known = self.moves.get(place)
        if known is None or move.after < min(known.before, known.after):
            self.moves[place] = move


class SetTold(msgspec.Struct, array_like=True):
    """Until when offsets were told as set, how long the next are held, how often they went forward."""

    until_ms: int = 0
    hold_ms: int = 0
    forward: int = 0


class SavedGroup(msgspec.Struct, array_like=True):
    """A group as it is stored, to go on from there."""

    snapshot: Snapshot
    last_protocol_name: str
    partition_counts: dict[str, int]
    activities: dict[str, Activity]
    places: list[tuple[str, int, int, int, int]]
    empty_since_ms: int
    has_had_members: bool
    is_by_broker: bool
    advanced: int
    burst_set: Burst | None
    burst_removed: Burst | None
    is_removed: bool
    set_told: SetTold
    kind: str
    standstills: list[tuple[str, int, int, int]] = []


class ObservedGroup:
    """Follows the records of one group, and returns events."""

    def __init__(self, group_id: str, facts: Facts) -> None:
        self.group_id = group_id
        self.snapshot = Snapshot()
        self.is_by_broker = False
        self.kind = CONSUMER
        """Or share, or streams."""
        self.places: dict[tuple[str, int], Place] = {}
        self.activities: dict[str, Activity] = {}
        self.partition_counts: dict[str, int] = {}
        self.share_starts: dict[tuple[str, int], int] = {}
        """Of a share group: where it began at the last look. It is not stored."""
        self.share_lags: dict[tuple[str, int], int] = {}
        """Of a share group: its lag, where it seems to have come less far than at a look before."""
        self.is_described = False
        """Whether its members are known by descriptions alone."""
        self.has_dropped_places = False
        """Whether places were dropped without a record of `__consumer_offsets` that says so."""
        self.events: list[AnyObserved] = []
        self._facts = facts
        self._last_protocol_name = ""
        self._empty_since_ms = 0
        self._has_had_members = False
        self.advanced = 0
        self.standstills = Standstills()
        self._set: Burst | None = None
        self._removed: Burst | None = None
        self._is_removed = False
        self._set_told = SetTold()

    # Offsets

    def commit(
        self, topic: str, partition: int, offset: int, at_ms: int, *, is_transactional: bool = False
    ) -> Place:
        """Take a commit of a partition that has none, and return what the next ones go to."""
        place = self.places.get((topic, partition))
        if place is not None:
            commit_each([((self, place), offset)], at_ms, set(), is_transactional=is_transactional)
            return place
        place = Place(topic, partition, offset, at_ms, at_ms)
        self.places[topic, partition] = place
        owner = self.snapshot.owners.get(topic, {}).get(partition, "")
        place.activity = self.activities.get(owner) if self.kind != SHARE else None
        if place.activity is not None:
            place.activity.committed(at_ms)
            place.activity.progressed(at_ms)
        self.advanced += 1
        self.moved_on((topic, partition), offset, at_ms)
        return place

    def moved_on(self, where: tuple[str, int], offset: int, at_ms: int) -> None:
        """Take it that a committed offset moves forward; tell, if it stood still while members were gone."""
        ended = self.standstills.moved_on(where, offset, at_ms)
        if ended is not None:
            self.events.append(ended)

    def remove(self, topic: str, partition: int, at_ms: int) -> None:
        """Take it that an offset was removed."""
        self.standstills.forget((topic, partition))
        place = self.places.pop((topic, partition), None)
        if place is None:
            return
        if self._removed is not None and at_ms > self._removed.until_ms:
            self.settle()
        self._removed = self._removed or Burst(at_ms, at_ms + TOGETHER_MS)
        self._removed.add(OffsetMove(topic, partition, place.offset, -1))
        self._removed.newest_commit_ms = max(self._removed.newest_commit_ms, place.at_ms)

    def drop(self, places: Iterable[tuple[str, int]]) -> None:
        """Forget offsets of which no record says that they are removed."""
        for where in places:
            self.share_starts.pop(where, None)
            self.share_lags.pop(where, None)
            self.standstills.forget(where)
            if self.places.pop(where, None) is not None:
                self.has_dropped_places = True

    def was_set(self, place: Place, offset: int, at_ms: int, *, is_transactional: bool) -> None:
        """Take it that an offset is set by something else than the progress of a member."""
        if self._set is not None and at_ms > self._set.until_ms:
            self.settle()
        told = self._set_told
        if self._set is None:
            if offset > place.offset and told.forward >= FORWARD_TOLD:
                return
            is_again = told.until_ms and at_ms - told.until_ms <= max(told.hold_ms, HELD_MS)
            told.hold_ms = min(max(2 * told.hold_ms, HELD_MS), HELD_MS_MAX) if is_again else 0
            self._set = Burst(at_ms, at_ms + max(told.hold_ms, TOGETHER_MS), last_ms=at_ms)
        elif at_ms - self._set.last_ms > TOGETHER_MS:
            self._set.times += 1
            self._set.last_ms = at_ms
        self._set.is_transactional |= is_transactional
        self._set.add(OffsetMove(place.topic, place.partition, place.offset, offset))

    def settle(self, now_ms: int | None = None) -> None:
        """Return what is together in `events`; with a time, only what nothing more can belong to."""
        for burst in (self._removed, self._set):
            if burst is None or (now_ms is not None and now_ms <= burst.until_ms):
                continue
            if burst is self._removed:
                self._removed = None
                self._told_removed(burst)
            else:
                self._set = None
                self._told_set(burst)

    def _told_removed(self, burst: Burst) -> None:
        self.events.append(
            OffsetsRemoved(
                at_ms=burst.at_ms,
                partitions=len(burst.moves),
                topics=tuple(sorted({each.topic for each in burst.moves.values()}))[:TOLD_MAX],
                kept=len(self.places),
                members=len(self.snapshot.members),
                newest_commit_ms=burst.newest_commit_ms,
                empty_since_ms=self._empty_since_ms,
                retention_ms=self._facts.offsets_retention_ms,
                is_group_removed=self._is_removed,
                is_by_broker=self.is_by_broker,
            )
        )

    def _told_set(self, burst: Burst) -> None:
        moves = burst.moves.values()
        backward = sum(each.after < each.before for each in moves)
        told = self._set_told
        told.until_ms = burst.last_ms
        told.forward = 0 if backward else told.forward + 1
        if backward or self._has_had_members:
            self.events.append(
                OffsetsSet(
                    at_ms=burst.at_ms,
                    partitions=len(moves),
                    backward=backward,
                    # No member moves a share group back.
                    members=0 if self.kind == SHARE else len(self.snapshot.members),
                    has_had_members=self._has_had_members,
                    moves=tuple(moves)[:TOLD_MAX],
                    times=burst.times,
                    last_ms=burst.last_ms if burst.times > 1 else 0,
                    is_shared=self.kind == SHARE,
                    is_transactional=burst.is_transactional,
                )
            )

    # Generations

    def become(
        self,
        new: Snapshot,
        *,
        by_pattern: tuple[Resubscription, ...] = (),
        is_metadata_changed: bool = False,
        topology_epoch: int = 0,
    ) -> None:
        """Take the next generation, or group epoch; tell how it differs from the one before."""
        self.settle()
        old = self.snapshot
        self._is_removed = False
        if old.generation_id == new.generation_id and not self.is_by_broker:
            self._static_members_returned(old, new)
        elif old.generation_id >= 0 or (
            new.members and (new.generation_id == 1 or self._facts.knows_all_groups)
        ):
            change = self._changed(old, new, by_pattern, is_metadata_changed)
            self.standstills.note(change.gone)
            self.events.append(msgspec.structs.replace(change, topology_epoch=topology_epoch))
        self._take(new)

    def _changed(
        self,
        old: Snapshot,
        new: Snapshot,
        by_pattern: tuple[Resubscription, ...],
        is_metadata_changed: bool,
    ) -> GroupChanged:
        gone = [each for member_id, each in old.members.items() if member_id not in new.members]
        joined = [each for member_id, each in new.members.items() if member_id not in old.members]
        resubscribed = [
            resubscription(old.members[member_id], each)
            for member_id, each in new.members.items()
            if member_id in old.members and set(old.members[member_id].topics) != set(each.topics)
        ]
        return GroupChanged(
            at_ms=new.at_ms,
            generation_id=new.generation_id,
            former_generation_id=old.generation_id,
            members=len(new.members),
            former_members=len(old.members),
            protocol_name=new.protocol_name,
            former_protocol_name=self._last_protocol_name,
            joined=tuple(joined),
            gone=self._departures(old, gone),
            resubscribed=(*resubscribed, *by_pattern),
            grown=tuple(self._grown(old, new)),
            subscribers=subscribers(new.members.values()),
            moved=moved(old, new),
            advanced=self.advanced,
            others_commit_ms=self._last_commit_ms(new) if gone else 0,
            session_timeout_ms=self._session_timeout_ms(),
            is_by_broker=self.is_by_broker,
            is_metadata_changed=is_metadata_changed,
            group_type=self.kind if self.is_by_broker else "",
        )

    def _session_timeout_ms(self) -> int:
        """Return the session timeout of all members; 0 for a classic group, where each has its own.

        By descriptions the times of commits are those of looks: they prove nothing about a session.
        """
        if not self.is_by_broker or self.is_described:
            return 0
        return self._facts.session_timeout_of(self.kind, self.group_id)

    def _departures(self, old: Snapshot, gone: list[ObservedMember]) -> tuple[Departure, ...]:
        """Return what is known of members that are gone, with their first partitions."""
        owned = old.owned() if gone else {}
        return tuple(
            self._activity(each).departure(
                tuple(
                    OwnedPartition(
                        *where,
                        self.places[where].offset if where in self.places else -1,
                        self._facts.end_offset(*where),
                    )
                    for where in owned.get(each.member_id, [])[:OWNED_KEPT]
                )
            )
            for each in gone
        )

    def _last_commit_ms(self, new: Snapshot) -> int:
        """Return when a member of both generations committed last, 0 for never."""
        known = self.activities.items()
        return max((each.last_commit_ms for member, each in known if member in new.members), default=0)

    def _grown(self, old: Snapshot, new: Snapshot) -> Iterable[Grown]:
        """Yield the topics with more assigned partitions than ever before, or with none any more."""
        subscribed = {topic for each in old.members.values() for topic in each.topics}
        for topic, owners in new.owners.items():
            before, after = self.partition_counts.get(topic, 0), max(owners, default=-1) + 1
            if after > before and (before or (topic in subscribed and old.members)):
                yield Grown(topic, before, after)
        if new.members:
            for topic in old.owners.keys() - new.owners.keys():
                yield Grown(topic, self.partition_counts.get(topic, 0), 0)

    def _static_members_returned(self, old: Snapshot, new: Snapshot) -> None:
        former = {each.group_instance_id: each for each in old.members.values() if each.group_instance_id}
        for member_id, member in new.members.items():
            before = former.get(member.group_instance_id or "")
            if member_id not in old.members and before is not None:
                self.static_member_returned(member, before, new.at_ms, new.generation_id)

    def static_member_returned(
        self, member: ObservedMember, before: ObservedMember, at_ms: int, generation_id: int
    ) -> None:
        """Note that a static member has another member id."""
        self.events.append(
            StaticMemberReturned(
                at_ms=at_ms,
                member=member,
                former_member_id=before.member_id,
                generation_id=generation_id,
                former_client_host=before.client_host,
                former_commit_ms=self._activity(before).last_commit_ms,
            )
        )

    def _take(self, new: Snapshot) -> None:
        self.snapshot = new
        self.advanced = 0
        if new.members:
            self._has_had_members = True
            self._set_told.forward = 0
            self._empty_since_ms = 0
            self._last_protocol_name = new.protocol_name or self._last_protocol_name
        elif not self._empty_since_ms:
            self._empty_since_ms = new.at_ms
        activities: dict[str, Activity] = {}
        for member_id, member in new.members.items():
            activity = self._activity(member)
            activity.member = member
            activities[member_id] = activity
        self.activities = activities
        for topic, owners in new.owners.items():
            count = max(owners, default=-1) + 1
            self.partition_counts[topic] = max(self.partition_counts.get(topic, 0), count)
        self.own(new.owners)

    def own(self, owners: Mapping[str, Mapping[int, str]]) -> None:
        """Take it that these members commit for these partitions."""
        for (topic, partition), place in self.places.items():
            place.activity = self.activities.get(owners.get(topic, {}).get(partition, ""))

    def own_some(self, member_id: str, topics: Mapping[str, Iterable[int]]) -> None:
        """Take it that this member commits for these partitions."""
        activity = self.activities.get(member_id)
        for topic, partitions in topics.items():
            for partition in partitions:
                place = self.places.get((topic, partition))
                if place is not None:
                    place.activity = activity

    def _activity(self, member: ObservedMember) -> Activity:
        return self.activities.get(member.member_id) or Activity(member)

    def removed(self, at_ms: int) -> None:
        """Take it that the group is gone."""
        self._is_removed = True
        self.snapshot = Snapshot(at_ms=at_ms)
        if self.kind == SHARE:
            self.drop(tuple(self.places))  # Of these there are no records, which would be removed one by one.
        self.activities = {}
        self.standstills = Standstills()

    @property
    def is_settled(self) -> bool:
        """Whether all that happened is in `events`."""
        return self._set is None and self._removed is None

    @property
    def is_nothing(self) -> bool:
        """Whether the group is gone and has no offsets either."""
        return not self.places and self.snapshot.generation_id < 0 and self._removed is None

    # Stored

    def saved(self) -> SavedGroup:
        """Return what is stored."""
        return SavedGroup(
            self.snapshot,
            self._last_protocol_name,
            self.partition_counts,
            self.activities,
            [
                (each.topic, each.partition, each.offset, each.at_ms, each.progress_ms)
                for each in self.places.values()
            ],
            self._empty_since_ms,
            self._has_had_members,
            self.is_by_broker,
            self.advanced,
            self._set,
            self._removed,
            self._is_removed,
            self._set_told,
            self.kind,
            self.standstills.saved(),
        )

    def restore(self, saved: SavedGroup) -> None:
        """Go on from what was stored."""
        self.snapshot = saved.snapshot
        self.snapshot.members = members = sharing_topics(saved.snapshot.members)
        self._last_protocol_name = saved.last_protocol_name
        self.partition_counts = saved.partition_counts
        self.activities = saved.activities
        for member_id, activity in self.activities.items():
            activity.member = members.get(member_id, activity.member)
        self.places = {(each[0], each[1]): Place(*each) for each in saved.places}
        self._empty_since_ms = saved.empty_since_ms
        self._has_had_members = saved.has_had_members
        self.is_by_broker = saved.is_by_broker
        self.advanced = saved.advanced
        self._set = saved.burst_set
        self._removed = saved.burst_removed
        self._is_removed = saved.is_removed
        self._set_told = saved.set_told
        self.kind = saved.kind
        self.standstills = Standstills(saved.standstills)
        self.own(saved.snapshot.owners)


def commit_each(
    commits: Iterable[tuple[tuple[ObservedGroup, Place], int]],
    at_ms: int,
    changed: set[str],
    *,
    is_transactional: bool = False,
) -> None:
    """Take commits of known partitions at one time, each with its offset. The hot path.

    The groups' ids are added to `changed`.
    Those of a transaction (`is_transactional`) count also where it is aborted later.
    """
    former: ObservedGroup | None = None
    noted: Activity | None = None
    began_ms, has_members, has_stood, has_progressed = 0, False, False, True
    for (group, place), offset in commits:
        if group is not former:
            former = group
            changed.add(group.group_id)
            began_ms, has_members = group.snapshot.at_ms, bool(group.snapshot.members)
            has_stood = has_members and bool(group.standstills)
        activity = place.activity
        if activity is not noted:
            noted, has_progressed = activity, activity is None
            if activity is not None:
                activity.committed(at_ms)
        before = place.offset
        if offset > before:
            if has_stood:
                group.moved_on((place.topic, place.partition), offset, at_ms)
            if place.progress_ms <= began_ms:
                group.advanced += 1
            place.progress_ms = at_ms
            if not has_progressed and activity is not None:
                has_progressed = True
                activity.progressed(at_ms)
            if not has_members:
                group.was_set(place, offset, at_ms, is_transactional=is_transactional)
            place.offset = offset
        elif offset < before:
            group.was_set(place, offset, at_ms, is_transactional=is_transactional)
            place.offset = offset
        place.at_ms = at_ms
