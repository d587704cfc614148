"""ShareGroupHeartbeat: a member joins, keeps its session, subscribes, gets its assignment, leaves.

A changed subscription makes a new group epoch, and a new group epoch a new target assignment. The member has
its target at once: partitions are shared, so no other member gives anything up for it. Source:
GroupMetadataManager.shareGroupHeartbeat.
"""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from kohort.broker.group.epochs.members import JOINING, LEAVING, fenced, refuse_if
from kohort.broker.group.epochs.partitions import Partitions
from kohort.broker.group.epochs.target import TargetBuilder
from kohort.broker.group.events import MemberJoined
from kohort.broker.group.metadata import metadata_hash
from kohort.broker.group.notes import fields_of
from kohort.broker.group.share.assignor import assign
from kohort.broker.group.share.commands import ShareGroupHeartbeat, heartbeat_error
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.share.leaving import extend_session, leave
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.share.readiness import (
    merged,
    missing_partitions,
    ready_partitions,
)
from kohort.broker.group.share.records import (
    current_record,
    epoch_record,
    member_record,
    state_record,
    target_epoch_record,
    target_record,
)
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatAssignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatTopicPartitions,
)

READY_SOON_MS = 100
"""A member whose partitions are being made comes again so soon; Kafka has it wait for its next heartbeat."""


def heartbeat(turn: Turn, command: ShareGroupHeartbeat) -> None:
    """Answer the heartbeat, after its changes are logged."""
    message = command.message
    try:
        _check(message)
        response = leave(turn, message) if message.member_epoch == LEAVING else _live(turn, command)
    except ApiError as error:
        response = heartbeat_error(error.code, error.message)
    turn.reply(command.request_id, response)


def _check(message: ShareGroupHeartbeatRequest) -> None:
    """Pass a heartbeat that can be meant. Raises: ApiError, with Kafka's words."""
    refuse_if(not message.member_id, "MemberId can't be empty.")
    refuse_if(not message.group_id, "GroupId can't be empty.")
    refuse_if(message.rack_id == "", "RackId can't be empty.")
    refuse_if(message.member_epoch < LEAVING, "MemberEpoch is invalid.")
    refuse_if(
        message.member_epoch == JOINING and not message.subscribed_topic_names,
        "SubscribedTopicNames must be set in first request.",
    )


def _live(turn: Turn, command: ShareGroupHeartbeat) -> ShareGroupHeartbeatResponse:
    message = command.message
    if message.member_epoch != JOINING:
        group = turn.groups.existing(message.group_id, ShareGroup)
        before = group.member(message.member_id)
        _check_epoch(before, message.member_epoch)
    else:
        is_there = message.group_id in turn.groups.by_id
        known = turn.groups.existing(message.group_id, ShareGroup) if is_there else None
        _check_room(turn, known, message)
        group = turn.new_group(message.group_id, ShareGroup) if known is None else known
        before = group.members.get(message.member_id) or ShareMember(member_id=message.member_id)
    return _Step(turn, command, group, before).taken()


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Check the member epoch; the previous one is valid after a lost answer. Raises: ApiError."""
    if epoch not in (member.epoch, member.previous_epoch):
        raise fenced("share", member, epoch)


def _check_room(turn: Turn, group: ShareGroup | None, message: ShareGroupHeartbeatRequest) -> None:
    """Check that the member may join. Raises: ApiError GROUP_MAX_SIZE_REACHED."""
    if group is not None and message.member_id in group.members:
        return
    limit = turn.config.group_share_max_size
    if group is not None and group.member_count >= limit:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {limit} members.",
        )
    more_bytes = sum(map(len, message.subscribed_topic_names or ()))
    if not turn.has_room(group, more_bytes):
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The members bring more than is kept of them.")


class _Step:
    """One heartbeat of a member that is in the group, or is now."""

    def __init__(
        self, turn: Turn, command: ShareGroupHeartbeat, group: ShareGroup, before: ShareMember
    ) -> None:
        self.turn = turn
        self.message = command.message
        self.metadata = command.metadata
        self.group = group
        self.before = before
        self.is_new = before.member_id not in group.members
        self.wish = self._wish(command)
        self.wait_ms = 0
        """How long it is until the group may be assigned again."""

    def _wish(self, command: ShareGroupHeartbeat) -> ShareMember:
        """Return the member with the changed fields of its heartbeat; omitted ones stay."""
        before, names, rack_id = self.before, command.message.subscribed_topic_names, command.message.rack_id
        return msgspec.structs.replace(
            before,
            rack_id=before.rack_id if rack_id is None else rack_id,
            topic_names=before.topic_names if names is None else tuple(sorted(set(names))),
            client_id=command.client_id,
            client_host=command.client_host,
        )

    def taken(self) -> ShareGroupHeartbeatResponse:
        """Return the answer to the heartbeat; its changes are logged."""
        turn, group, wish = self.turn, self.group, self.wish
        group.overrides = self.metadata.group_config(group.group_id)
        if self.is_new or wish != self.before:
            turn.log(member_record(group.group_id, wish))
        epoch, is_missing = group.epoch, bool(group.initializing)
        if self._has_news() or is_missing:
            names = self._names()
            epoch = self._epoch(names)
            is_missing = self._ask_for_missing(names)
        target, target_epoch = self._target(epoch)
        member = wish
        if wish.epoch != target_epoch or wish.assigned != target:
            member = msgspec.structs.replace(
                wish, epoch=target_epoch, previous_epoch=wish.epoch, assigned=target
            )
            turn.log(current_record(group.group_id, member))
        extend_session(turn, group, member)
        if self.is_new:
            turn.note(MemberJoined(**fields_of(turn, group, wish)))
        return self._answer(member, is_missing=is_missing, is_late=target_epoch < epoch)

    @property
    def _has_new_wish(self) -> bool:
        return self.is_new or self.wish.topic_names != self.before.topic_names

    def _has_news(self) -> bool:
        """Return whether the member wants something else, or the topics may be others."""
        return self._has_new_wish or self.group.metadata_version != self.metadata.version

    def _names(self) -> set[str]:
        """Return the topics that the group reads, with this member's new wish."""
        names = set(self.group.name_counts)
        if self.wish.topic_names != self.before.topic_names:
            names -= {each for each in self.before.topic_names if self.group.name_counts[each] <= 1}
            names |= set(self.wish.topic_names)
        return names

    def _epoch(self, names: set[str]) -> int:
        """Return the group epoch after what this heartbeat changes."""
        turn, group = self.turn, self.group
        group.metadata_version = self.metadata.version
        hash_now = metadata_hash(names, self.metadata)
        if not self._has_new_wish and hash_now == group.metadata_hash:
            return group.epoch
        turn.log(epoch_record(group.group_id, group.epoch + 1, hash_now))
        return group.epoch + 1

    def _ask_for_missing(self, names: set[str]) -> bool:
        """Return whether partitions that the group reads are yet to be made; log those asked for just now."""
        group = self.group
        missing = missing_partitions(group, names, self.metadata)
        if missing:
            self.turn.log(
                state_record(group.group_id, merged(group.initializing, missing), group.initialized)
            )
        return bool(missing or group.initializing)

    def _target(self, epoch: int) -> tuple[Partitions, int]:
        """Return the member's target assignment, and its epoch."""
        turn, group, wish = self.turn, self.group, self.wish
        builder = TargetBuilder(
            turn, group, nothing={}, target_record=target_record, epoch_record=target_epoch_record
        )
        if any(group.targets.values()):
            interval_ms = turn.config.group_share_assignment_interval_ms
            self.wait_ms = builder.wait_ms("share.assignment.interval.ms", interval_ms)
        if epoch <= group.assignment_epoch or self.wait_ms > 0:
            return group.targets.get(wish.member_id, {}), group.assignment_epoch
        builder.put(wish)
        return builder.build(epoch, self._targets)[wish.member_id], epoch

    def _targets(
        self, members: Mapping[str, ShareMember], current: Mapping[str, Partitions]
    ) -> dict[str, Partitions]:
        topics = self.metadata.topics
        known: dict[tuple[str, ...], frozenset[UUID]] = {}
        for member in members.values():
            if member.topic_names not in known:
                known[member.topic_names] = frozenset(
                    topics[name].topic_id for name in member.topic_names if name in topics
                )
        subscriptions = {member_id: known[each.topic_names] for member_id, each in members.items()}
        return assign(subscriptions, ready_partitions(self.group.initialized, self.metadata), current)

    def _answer(self, member: ShareMember, *, is_missing: bool, is_late: bool) -> ShareGroupHeartbeatResponse:
        """Return the answer; with the assignment if the member sends all fields, or has another one.

        A member with the previous epoch has missed an answer, and gets it again.
        """
        message, group = self.message, self.group
        assignment = None
        tells_all = message.member_epoch == JOINING or message.subscribed_topic_names is not None
        if tells_all or message.member_epoch != self.before.epoch or member.assigned != self.before.assigned:
            assignment = ShareGroupHeartbeatAssignment(
                topic_partitions=tuple(
                    ShareGroupHeartbeatTopicPartitions(
                        topic_id=topic_id, partitions=tuple(sorted(member.assigned[topic_id]))
                    )
                    for topic_id in sorted(member.assigned)
                )
            )
        interval_ms = self.turn.config.of_group(
            group.overrides,
            "share.heartbeat.interval.ms",
            self.turn.config.group_share_heartbeat_interval_ms,
        )
        if is_missing:
            interval_ms = min(interval_ms, READY_SOON_MS)
        elif is_late:
            interval_ms = max(1, min(interval_ms, self.wait_ms))
        return ShareGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=assignment,
        )
