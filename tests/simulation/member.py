"""A consumer process: the client's own membership core, and the little around it that the core asks for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol

from kohort.client.assignors import ASSIGNORS, Owned
from kohort.client.errors import BrokerError, NetworkError
from kohort.client.membership import (
    Assign,
    ClassicMembership,
    FindCoordinator,
    HandOut,
    MemberSettings,
    Revoke,
    Send,
    State,
    Wait,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kohort.protocol.registry import BY_NAME, Api
from kohort.protocol.schema import Message
from tests.simulation.network import Host, Link
from tests.simulation.schedule import Action, Schedule

HEARTBEAT = BY_NAME["Heartbeat"]
JOIN = BY_NAME["JoinGroup"]
SYNC = BY_NAME["SyncGroup"]
LEAVE = BY_NAME["LeaveGroup"]
COMMIT = BY_NAME["OffsetCommit"]
FETCH = BY_NAME["OffsetFetch"]

LOOK_UP_MS = 20
HANDOVER_MS_MAX = 1_500
REVOKE_PATIENCE_MS = 5_000
DATA_PATIENCE_MS = 20_000
RETRY_MS = 500
HASTY = 0.1  # How many of those that wait for their assignment commit all the same.
SPARE_TOPIC = "spare"  # Nobody reads it: what is committed there by mistake harms nobody.
COMMIT_INTERVALS_MS = (15_000, 30_000, 60_000)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the members of one group have in common."""

    group_id: str
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int


class Around(Protocol):
    """What a member needs of its world."""

    schedule: Schedule
    random: Random

    def connect(self, host: Host, client_id: str, on_closed: Action) -> Link | None:
        """Return a connection to the broker, None where there is none to be had."""
        ...

    def partition_counts(self) -> dict[str, int]:
        """Return how many partitions each topic has."""
        ...

    def next_token(self) -> str:
        """Return a text that no other commit has in its metadata."""
        ...


class Member:
    """One process. Its group's requests go over one connection, offsets over another."""

    def __init__(self, world: Around, name: str, plan: Plan, instance: str | None, version: int) -> None:
        """Begin a process whose JoinGroup is of that version."""
        self.world = world
        self.name = name
        self.plan = plan
        self.host = Host(name)
        self.stopped = False
        self.positions: dict[tuple[str, int], int] = {}
        self.committed = 0
        self._schedule = world.schedule
        self._versions: dict[type[Message], tuple[Api, int]] = {  # Those of a client of its time.
            HeartbeatRequest: (HEARTBEAT, 4 if version >= 5 else 2),
            JoinGroupRequest: (JOIN, version),
            SyncGroupRequest: (SYNC, 5 if version >= 7 else 3),
            LeaveGroupRequest: (LEAVE, 5),
        }
        self._link: Link | None = None
        self._data: Link | None = None
        self._busy: object | None = None  # What is awaited; a token, so that a late one is known as late.
        self._timeout_ms = 0
        self._timeout_watched = False
        self._wake_ms: int | None = None
        self._resting_until_ms = 0
        self._handing_over = False
        self._revoking: object | None = None
        self._commit_busy: object | None = None
        self._commit_interval_ms = COMMIT_INTERVALS_MS[int(world.random.random() * len(COMMIT_INTERVALS_MS))]
        settings = MemberSettings(
            group_id=plan.group_id,
            session_timeout_ms=plan.session_timeout_ms,
            heartbeat_interval_ms=plan.heartbeat_interval_ms,
            max_poll_interval_ms=plan.max_poll_interval_ms,
            group_instance_id=instance,
        )
        self.membership = ClassicMembership(settings, [ASSIGNORS[each] for each in plan.assignors])
        self.membership.subscribe(plan.topics)
        self.membership.partitions_changed(world.partition_counts())  # Its client knows them before it joins.
        self._later(int(world.random.random() * 2_000), self.serve)
        self._later(int(world.random.random() * self._commit_interval_ms), self._commit_regularly)

    @property
    def owned(self) -> Owned:
        """What it believes to own."""
        return self.membership.owned

    def _later(self, delay_ms: int, action: Action) -> None:
        """Run `action` later: not before the process goes on again, and not once it has ended."""

        def act() -> None:
            if self.stopped:
                return
            rest_ms = self._resting_until_ms - self._schedule.time_ms
            if rest_ms > 0:
                self._schedule.after(rest_ms, act)
            else:
                action()

        self._schedule.after(delay_ms, act)

    # -- what the simulation does to it -------------------------------------------------------------------

    def rest(self, duration_ms: int) -> None:
        """Stand still, as in a long garbage collection: whatever arrives waits."""
        self._resting_until_ms = max(self._resting_until_ms, self._schedule.time_ms + duration_ms)

    def kill(self) -> None:
        """End without a word."""
        self.stopped = True
        for link in (self._link, self._data):
            if link is not None:
                link.hang_up()

    def close(self, reason: str) -> None:
        """End as a consumer that is closed: say goodbye, unless static."""
        request = self.membership.leave(reason)
        if request is not None and self._link is not None:
            self._link.send(LEAVE, 5, request, lambda _: None)
        self.kill()

    def work(self, duration_ms: int) -> None:
        """Let the user work on its records, perhaps for longer than it may."""
        self.membership.poll_ends(self._schedule.time_ms)
        self._later(duration_ms, self._poll)
        self._wake()

    def _poll(self) -> None:
        if self.membership.poll_begins():
            self._wake()
        self._hand_over_soon()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Wish for other topics."""
        self.membership.subscribe(topics)
        self._hand_over_soon()
        self._wake()

    def refresh(self) -> None:
        """Hear of new partitions."""
        self.membership.partitions_changed(self.world.partition_counts())
        self._hand_over_soon()
        self._wake()

    def delay_commit(self, duration_ms: int) -> None:
        """Commit, and let that arrive when the group may have moved on."""
        link = self._data_link()
        if link is not None and self.membership.state is State.STABLE:
            link.hold(duration_ms)
            self._commit()

    def lose_connections(self) -> None:
        """Let the connections die, and nobody be told of it."""
        for link in (self._link, self._data):
            if link is not None:
                link.die()

    def calm(self) -> None:
        """Go on: the network is whole, the process runs, the user polls."""
        self._resting_until_ms = 0
        for link in (self._link, self._data):
            if link is not None:
                link.reset()
        self._poll()

    # -- the network's side -------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._later(0, self.serve)

    def serve(self) -> None:
        """Do what the membership asks for, if nothing is under way."""
        if self._busy is not None:
            return
        now_ms = self._schedule.time_ms
        request = self.membership.next_request(now_ms)
        kind = type(request)
        if kind is Wait:
            self._wait(request.until_ms)  # type: ignore[union-attr]  # a Wait
        elif kind is Send:
            self._send(request)  # type: ignore[arg-type]  # a Send
        else:
            self._busy = busy = object()
            if kind is FindCoordinator:
                delay_ms = 1 + int(self.world.random.random() * LOOK_UP_MS)
                self._later(delay_ms, lambda: self._found(busy))
            else:
                assert kind is HandOut
                self._later(int(self.world.random.random() * 50), lambda: self._hand_out(busy))

    def _wait(self, until_ms: int | None) -> None:
        if until_ms is None or self._wake_ms == until_ms:
            return
        self._wake_ms = until_ms
        self._schedule.at(until_ms, partial(self._waited, until_ms))

    def _waited(self, until_ms: int) -> None:
        if self._wake_ms != until_ms or self.stopped:
            return
        self._wake_ms = None
        if self._resting_until_ms > self._schedule.time_ms:
            self._wake()
        else:
            self.serve()

    def _found(self, busy: object) -> None:
        if self._busy is not busy:
            return
        self._busy = None
        if self._link is not None:
            self._link.hang_up()
        self._link = self.world.connect(self.host, self.name, partial(self._later, 0, self._link_closed))
        if self._link is None:
            self._failed(NetworkError("nobody listens"))
        else:
            self.membership.coordinator_found()
            self.serve()

    def _hand_out(self, busy: object) -> None:
        if self._busy is busy:
            self._busy = None
            if self.membership.state is State.ASSIGNING:
                self.membership.hand_out(self.world.partition_counts())
            self.serve()

    def _send(self, send: Send) -> None:
        link = self._link
        if link is None:
            self._failed(NetworkError("the connection is gone"))
            return
        request = send.request
        api, version = self._versions[type(request)]
        self._busy = busy = object()
        self._timeout_ms = self._schedule.time_ms + send.timeout_ms
        self._watch_timeout()
        link.send(api, version, request, partial(self._answered, busy))

    def _watch_timeout(self) -> None:
        if not self._timeout_watched:
            self._timeout_watched = True
            self._schedule.at(self._timeout_ms, self._look_at_timeout)

    def _look_at_timeout(self) -> None:
        self._timeout_watched = False
        if self._busy is None or self.stopped:
            return
        if self._schedule.time_ms < self._timeout_ms:
            self._watch_timeout()
        elif self._link is not None:
            self._later(0, self._link_closed)

    def _answered(self, busy: object, message: Message) -> None:
        if self._resting_until_ms > self._schedule.time_ms:
            self._later(0, partial(self._answered, busy, message))
            return
        if self._busy is not busy or self.stopped:
            return
        self._busy = None
        if isinstance(message, HeartbeatResponse | JoinGroupResponse | SyncGroupResponse):
            self.membership.answered(message, self._schedule.time_ms)
            if self.membership.handover is not None:
                self._hand_over_soon()
            if self.membership.state is State.SYNCING and self.world.random.random() < HASTY:
                self._commit_too_early()
        self.serve()

    def _link_closed(self) -> None:
        """The connection has ended, or is given up."""
        if self._link is not None:
            self._link.hang_up()
            self._link = None
        if self._busy is not None:
            self._failed(NetworkError("the connection broke"))

    def _failed(self, error: NetworkError | BrokerError) -> None:
        self._busy = None
        self.membership.failed(error, self._schedule.time_ms)
        self.serve()

    # -- the user's side ----------------------------------------------------------------------------------

    def _hand_over_soon(self) -> None:
        if self.membership.has_handover and not self._handing_over:
            self._handing_over = True
            self._later(int(self.world.random.random() * HANDOVER_MS_MAX), self._begin_handover)

    def _begin_handover(self) -> None:
        handover = self.membership.begin_handover()
        if handover is None:
            self._handing_over = False
        elif isinstance(handover, Revoke) and self._commit():
            self._revoking = token = object()
            self._later(REVOKE_PATIENCE_MS, lambda: self._revoked(token))
        else:
            self._end_handover()
            if isinstance(handover, Assign):
                self._fetch()

    def _revoked(self, token: object | None) -> None:
        """End a revocation whose last commit was answered, or takes too long."""
        if token is not None and self._revoking is token:
            self._revoking = None
            self._end_handover()

    def _end_handover(self) -> None:
        self.membership.end_handover()
        self._handing_over = False
        owned = {(topic, index) for topic, indexes in self.owned.items() for index in indexes}
        self.positions = {each: offset for each, offset in self.positions.items() if each in owned}
        self._hand_over_soon()
        self._wake()

    def _data_link(self) -> Link | None:
        if self._data is None or self._data.closed:
            self._data = self.world.connect(self.host, self.name, self._data_closed)
        return self._data

    def _data_closed(self) -> None:
        self._give_up_data(self._commit_busy)

    def _give_up_data(self, busy: object | None) -> None:
        """Close the connection, so that nothing that was sent on it arrives behind what comes next."""
        if self._data is not None and self._commit_busy is busy:
            self._data.die()
            self._data.hang_up()
            self._data = None
            if busy is not None:
                self._commit_busy = None
                self._later(RETRY_MS, self._commit_if_stable)

    def _commit_regularly(self) -> None:
        self._later(self._commit_interval_ms, self._commit_regularly)
        self._commit_if_stable()

    def _commit_if_stable(self) -> None:
        if self.membership.state is State.STABLE and not self._handing_over:
            self._commit()

    def _commit(self) -> bool:
        """Commit all positions, a little further on; return whether that is under way."""
        membership = self.membership
        if not self.positions or self._commit_busy is not None or membership.generation_id < 0:
            return False
        link = self._data_link()
        if link is None:
            return False
        self._commit_busy = busy = object()
        random, token = self.world.random.random, self.world.next_token()
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for topic, index in self.positions:
            self.positions[topic, index] += int(random() * 5)
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=self.positions[topic, index],
                    committed_metadata=token,
                )
            )
        message = self._commit_message(
            tuple(
                OffsetCommitRequestTopic(name=name, partitions=tuple(each)) for name, each in topics.items()
            )
        )
        link.send(COMMIT, 9, message, partial(self._data_answered, busy, self._commit_answered))
        self._later(DATA_PATIENCE_MS, partial(self._give_up_data, busy))
        return True

    def _commit_too_early(self) -> None:
        """Commit under a generation whose assignment is not there yet, as no client should."""
        link = self._data_link()
        if link is None or self._commit_busy is not None:
            return
        self._commit_busy = busy = object()
        spare = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0, committed_metadata=self.world.next_token()
        )
        message = self._commit_message((OffsetCommitRequestTopic(name=SPARE_TOPIC, partitions=(spare,)),))
        link.send(COMMIT, 9, message, partial(self._data_answered, busy, lambda _: None))
        self._later(DATA_PATIENCE_MS, partial(self._give_up_data, busy))

    def _commit_message(self, topics: tuple[OffsetCommitRequestTopic, ...]) -> OffsetCommitRequest:
        membership = self.membership
        return OffsetCommitRequest(
            group_id=self.plan.group_id,
            generation_id_or_member_epoch=membership.generation_id,
            member_id=membership.member_id,
            group_instance_id=membership.settings.group_instance_id,
            topics=topics,
        )

    def _data_answered(self, busy: object, action: Callable[[Message], None], message: Message) -> None:
        if self.stopped or self._commit_busy is not busy:
            return
        if self._resting_until_ms > self._schedule.time_ms:
            self._later(0, partial(self._data_answered, busy, action, message))
            return
        self._commit_busy = None
        action(message)

    def _commit_answered(self, message: Message) -> None:
        assert isinstance(message, OffsetCommitResponse)
        if message.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self.committed += 1
        self._revoked(self._revoking)

    def _fetch(self) -> None:
        """Look up where to begin in the partitions that are new."""
        new = {
            topic: [index for index in indexes if (topic, index) not in self.positions]
            for topic, indexes in self.owned.items()
        }
        topics = tuple(
            OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(indexes))
            for topic, indexes in new.items()
            if indexes
        )
        if not topics:
            return
        link = None if self._commit_busy is not None else self._data_link()
        if link is None:
            self._later(1_000, self._fetch)
            return
        self._commit_busy = busy = object()
        group = OffsetFetchRequestGroup(group_id=self.plan.group_id, topics=topics)
        generation_id = self.membership.generation_id
        on_answer = partial(self._fetch_answered, generation_id)
        link.send(
            FETCH, 9, OffsetFetchRequest(groups=(group,)), partial(self._data_answered, busy, on_answer)
        )
        self._later(DATA_PATIENCE_MS, partial(self._give_up_data, busy))
        self._later(DATA_PATIENCE_MS + 1, self._fetch)

    def _fetch_answered(self, generation_id: int, message: Message) -> None:
        assert isinstance(message, OffsetFetchResponse)
        [group] = message.groups
        if generation_id != self.membership.generation_id:
            return  # The partitions may have had another owner since.
        if group.error_code:
            self._later(1_000, self._fetch)
            return
        for topic in group.topics:
            for each in topic.partitions:
                if each.partition_index in self.owned.get(topic.name, ()):
                    self.positions[topic.name, each.partition_index] = max(each.committed_offset, 0)
