"""The share partitions that this broker leads, and the sessions of their members (KIP-932).

A session is one member's: which partitions it asks for, and the number of its next request. It ends by the
member's request or with its connection, and releases the records that the member has acquired.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple
from uuid import UUID

from kohort.broker.config.group_settings import GroupSettings, group_settings
from kohort.broker.coordination.dead_letters import DeadLetterRequest, DeadLetters
from kohort.broker.coordination.led_share_partition import LedSharePartition
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.share_state_shards import ShareStateShards
from kohort.broker.explain.share_groups import PartitionExplained, happened
from kohort.broker.group.share.delivery_events import DeliveryEvents, Reason
from kohort.broker.group.share.record import DeadRecords
from kohort.broker.partitions import Partition
from kohort.broker.share_state.state import NO_EPOCH, ShareKey
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.ids import share_hashes

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
SETTINGS_KEPT = 1_000
DELIVERY_EVENTS_KEPT = 256
"""For how many share partitions without members the delivery events are kept."""

TopicIdPartition = tuple[UUID, int]
"""A partition by its topic's id."""
OnClose = list[Callable[[], None]]


class ShareSession:
    """A member's session: its partitions, in the order in which they are served next."""

    __slots__ = ("_hook", "_on_close", "epoch", "group_id", "is_over", "member_id", "places", "untold")

    def __init__(self, group_id: str, member_id: str, on_close: OnClose, hook: Callable[[], None]) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = INITIAL_EPOCH
        self.places: dict[TopicIdPartition, None] = {}
        self.untold: set[TopicIdPartition] = set()
        """Partitions that are new since the last answer: the next answer names them in any case."""
        self.is_over = False
        self._on_close = on_close
        self._hook = hook
        on_close.append(hook)

    def key_of(self, place: TopicIdPartition) -> ShareKey:
        """Return the share partition that a place is in this group."""
        return ShareKey(self.group_id, *place)

    def advance(self) -> None:
        """Expect the next request."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def ask_for(self, places: Iterable[TopicIdPartition]) -> None:
        """Fetch these as well. Raises: ApiError INVALID_REQUEST for ids with the same hash."""
        new = [place for place in places if place not in self.places]
        if new and share_hashes(topic_id for topic_id, _ in (*self.places, *new)):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        self.places.update(dict.fromkeys(new))
        self.untold.update(new)

    def served(self, place: TopicIdPartition) -> None:
        """Move a partition that was served behind the others."""
        if place in self.places:
            del self.places[place]
            self.places[place] = None

    def end(self) -> None:
        """Detach the session from its connection."""
        self.is_over = True
        if self._hook in self._on_close:
            self._on_close.remove(self._hook)


class _KnownSettings(NamedTuple):
    """A group's settings, and the values they were made from."""

    snapshot: object
    config: object
    overrides: Mapping[str, str]
    settings: GroupSettings


class SharePartitions:
    """Share partitions by their keys, sessions by group and member. All in the loop's thread."""

    def __init__(
        self,
        states: ShareStateShards,
        services: CoordinatorServices,
        *,
        dead_letters: Callable[[Callable[[str], GroupSettings]], DeadLetters],
    ) -> None:
        """`dead_letters` makes the writer of dead letters, given a function for a group's settings."""
        self.states = states
        self.dead_letters = dead_letters(self.settings_of)
        self._metadata = services.metadata
        self._current = services.current
        self._table = services.partitions
        self._timers = services.timers
        self._clock = services.clock
        self._led: dict[ShareKey, LedSharePartition] = {}
        self._past: dict[ShareKey, DeliveryEvents] = {}  # Of share partitions that are no longer led or used.
        self._doubtful: dict[ShareKey, int] = {}  # Of share partitions that ended during a write.
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._settings: dict[str, _KnownSettings] = {}

    # -- share partitions ---------------------------------------------------------------------------------

    def led(self, key: ShareKey, partition: Partition) -> LedSharePartition:
        """Return the share partition of this partition; a new one reads its stored state at once."""
        known = self._led.get(key)
        if known is not None and not known.is_of(partition):
            known.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            known = None
        if known is None:
            known = self._led[key] = LedSharePartition(
                key,
                partition,
                self.states,
                settings=partial(self.settings_of, key.group_id),
                timers=self._timers,
                clock=self._clock,
                forget=self._forget,
                request_dead_letters=self._request_dead_letters,
                delivery_events=self._past.pop(key, None),
                doubtful_epoch=self._doubtful.get(key, NO_EPOCH),
            )
            known.load()
        return known

    def _request_dead_letters(self, led: LedSharePartition, dead: DeadRecords) -> None:
        request = DeadLetterRequest(
            led.partition,
            dead,
            lambda: led.end_code is None,
            partial(self._dead_letters_written, led, dead),
        )
        self.dead_letters.write(led.key, (request,))

    def _dead_letters_written(self, led: LedSharePartition, dead: DeadRecords, is_written: bool) -> None:
        led.dead_letters_written(dead, is_written=is_written)

    def explained(self, group_id: str) -> tuple[PartitionExplained, ...]:
        """Return the state of the share partitions of a group that are, or recently were, in use here."""
        found = [led.explained() for key, led in self._led.items() if key.group_id == group_id]
        topics = self._metadata.snapshot().topics_by_id
        ahead_ms = self._clock.wall_ms() - self._clock.now_ms()
        for key, past in self._past.items():
            if key.group_id == group_id and key.topic_id in topics:
                found.append(
                    PartitionExplained(
                        topic=topics[key.topic_id].name,
                        partition=key.partition,
                        start_offset=None,
                        end_offset=None,
                        happened=tuple(happened(each, ahead_ms) for each in past),
                    )
                )
        return tuple(sorted(found, key=lambda each: (each.topic, each.partition)))

    def peek(self, key: ShareKey) -> LedSharePartition | None:
        """Return the share partition if it is in use."""
        return self._led.get(key)

    def end(self, keys: Iterable[ShareKey]) -> None:
        """End share partitions whose state is about to be changed by an administrator."""
        for key in keys:
            led = self._led.get(key)
            if led is not None:
                led.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._past.pop(key, None)

    def refresh(self) -> None:
        """End share partitions that others lead by now, or this broker under another epoch."""
        for led in tuple(self._led.values()):
            if led.partition.error_code is not None or not led.is_of(led.partition):
                led.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.states.refresh()

    def _forget(self, led: LedSharePartition) -> None:
        if self._led.get(led.key) is led:
            del self._led[led.key]
            self._doubtful.pop(led.key, None)
            if led.doubtful_epoch != NO_EPOCH:
                self._doubtful[led.key] = led.doubtful_epoch
            if led.delivery_events:
                self._past[led.key] = led.delivery_events
                if len(self._past) > DELIVERY_EVENTS_KEPT:
                    del self._past[next(iter(self._past))]

    def settings_of(self, group_id: str) -> GroupSettings:
        """Return the settings of a group."""
        snapshot, config = self._metadata.snapshot(), self._current.config
        known = self._settings.get(group_id)
        if known is not None and known.snapshot is snapshot and known.config is config:
            return known.settings
        overrides = snapshot.group_config(group_id)
        if known is not None and known.overrides == overrides and known.config is config:
            settings = known.settings
        else:
            settings = group_settings(config, overrides)
        if len(self._settings) >= SETTINGS_KEPT:
            self._settings.clear()
        self._settings[group_id] = _KnownSettings(snapshot, config, overrides, settings)
        return settings

    # -- sessions -----------------------------------------------------------------------------------------

    def open_session(
        self, group_id: str, member_id: str, places: Collection[TopicIdPartition], on_close: OnClose
    ) -> ShareSession:
        """Return a new session; the member keeps its acquired records.

        Raises: ApiError SHARE_SESSION_LIMIT_REACHED, INVALID_REQUEST.
        """
        former = self._sessions.pop((group_id, member_id), None)
        if former is not None:
            former.end()
            kept = frozenset(places)
            self._leave(former, (place for place in former.places if place not in kept))
        elif len(self._sessions) >= self._current.config.group_share_max_share_sessions:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        hook = partial(self._connection_closed, group_id, member_id)
        session = self._sessions[group_id, member_id] = ShareSession(group_id, member_id, on_close, hook)
        session.ask_for(places)
        session.advance()
        return session

    def session(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """Return the session of this request, which continues or ends it.

        Raises: ApiError SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.advance()
        return session

    def forget_places(self, session: ShareSession, places: Iterable[TopicIdPartition]) -> None:
        """Remove partitions from a session; the member keeps acquired records until their locks end."""
        gone = [place for place in places if place in session.places]
        for place in gone:
            del session.places[place]
            session.untold.discard(place)
        self._leave(session, gone)

    def close_session(self, session: ShareSession, reason: Reason = Reason.SESSION_CLOSED) -> None:
        """End the session, and release the records that the member has acquired."""
        session.end()
        key = session.group_id, session.member_id
        if self._sessions.get(key) is session:
            del self._sessions[key]
        for share_key, led in tuple(self._led.items()):
            if share_key.group_id == session.group_id:  # Also of partitions that it does not fetch any more.
                led.release(session.member_id, reason=reason)

    def _leave(self, session: ShareSession, places: Iterable[TopicIdPartition]) -> None:
        for place in places:
            led = self._led.get(session.key_of(place))
            if led is not None:
                led.left(session.member_id)

    def _connection_closed(self, group_id: str, member_id: str) -> None:
        session = self._sessions.get((group_id, member_id))
        if session is not None:
            self.close_session(session, Reason.CONNECTION_LOST)

    @property
    def session_count(self) -> int:
        """The number of members with a session."""
        return len(self._sessions)

    def close(self) -> None:
        """End every session and share partition; the state of these stays."""
        for session in self._sessions.values():
            session.end()
        for led in tuple(self._led.values()):
            led.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._sessions.clear()
        self.states.close()
