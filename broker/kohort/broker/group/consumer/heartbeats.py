"""ConsumerGroupHeartbeat: a member joins, lives, says what it reads and has, and is told what it gets.

One heartbeat brings the group as far as it goes: the member's wish may make a new group epoch, a new epoch a
new target, and the target brings this member one step on. All others come with their own next heartbeat.
"""

from collections.abc import Mapping

import msgspec

from kohort.broker.group.consumer.commands import ConsumerGroupHeartbeat, heartbeat_error
from kohort.broker.group.consumer.group import ConsumerGroup, Resolved
from kohort.broker.group.consumer.joining import Joined, check_epoch, check_static, joined, joining_group
from kohort.broker.group.consumer.leaving import leave
from kohort.broker.group.consumer.member import (
    AWAY,
    JOINING,
    LEAVING,
    ConsumerMember,
    MemberState,
    brought_bytes,
)
from kohort.broker.group.consumer.partitions import Partitions, same_partitions
from kohort.broker.group.consumer.reconciling import reconciled
from kohort.broker.group.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    regex_record,
    regex_tombstone,
)
from kohort.broker.group.consumer.requests import check_heartbeat
from kohort.broker.group.consumer.sessions import expect_revocation, extend_session, stop_expecting
from kohort.broker.group.consumer.subscriptions import (
    compiled,
    metadata_hash,
    resolved_anew,
    topics_of,
)
from kohort.broker.group.consumer.target import Wishes, update_target
from kohort.broker.group.events import MemberJoined
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import (
    ConsumerGroupHeartbeatAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)

SMALL_BYTES = 1_024
"""Who brings no more is let in in any case: a member takes as much without bringing anything."""


def heartbeat(turn: Turn, command: ConsumerGroupHeartbeat) -> None:
    """Answer the heartbeat, once what it leads to is logged."""
    message = command.message
    try:
        check_heartbeat(message, command.version, turn.config.group_consumer_assignors)
        leaves = message.member_epoch in (LEAVING, AWAY)
        response = leave(turn, message) if leaves else _live(turn, command)
    except ApiError as error:
        response = heartbeat_error(error.code, error.message)
    turn.reply(command.request_id, response)


def _live(turn: Turn, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResponse:
    message = command.message
    if message.subscribed_topic_regex:
        compiled(message.subscribed_topic_regex)  # Before anything comes into being.
    _check_room(turn, message)
    if message.member_epoch == JOINING:
        group = joining_group(turn, message)
        start = joined(turn, group, message, command.member_id)
    else:
        group = _existing(turn, message.group_id)
        start = Joined(_known_member(group, message))
    return _Step(turn, command, group, start, _updated(start.member, command)).response()


def _existing(turn: Turn, group_id: str) -> ConsumerGroup:
    group = turn.groups.by_id.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    words = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, words)


def _known_member(group: ConsumerGroup, message: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    if message.instance_id is None:
        member = group.consumer_member(message.member_id)
    else:
        member = check_static(group, message.instance_id, message.member_id)
    check_epoch(member, message.member_epoch, message.topic_partitions)
    return member


def _updated(member: ConsumerMember, command: ConsumerGroupHeartbeat) -> ConsumerMember:
    """Return the member with what its heartbeat says anew; what is left out stays."""
    message = command.message
    names, regex = message.subscribed_topic_names, message.subscribed_topic_regex
    return msgspec.structs.replace(
        member,
        instance_id=member.instance_id if message.instance_id is None else message.instance_id,
        rack_id=member.rack_id if message.rack_id is None else message.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if message.rebalance_timeout_ms == -1
            else message.rebalance_timeout_ms
        ),
        server_assignor=member.server_assignor
        if message.server_assignor is None
        else message.server_assignor,
        topic_names=member.topic_names if names is None else tuple(sorted(set(names))),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=command.client_id,
        client_host=command.client_host,
    )


def _check_room(turn: Turn, message: ConsumerGroupHeartbeatRequest) -> None:
    """Raises: ApiError GROUP_MAX_SIZE_REACHED where members bring more than there is room for."""
    more_bytes = brought_bytes(message.subscribed_topic_names or (), message.subscribed_topic_regex)
    if more_bytes <= SMALL_BYTES:
        return
    group_bytes = 0
    group = turn.groups.by_id.get(message.group_id)
    if isinstance(group, ConsumerGroup):
        group_bytes = group.member_bytes
        before = group.consumer_members.get(message.member_id)
        more_bytes -= 0 if before is None else before.brought_bytes
    taken_bytes = turn.groups.room.member_bytes_with(turn.groups.shard_bytes)
    if more_bytes > 0 and (
        group_bytes + more_bytes > turn.config.group_member_bytes_max
        or taken_bytes + more_bytes > turn.config.member_bytes_max
    ):
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, "There is no room for what the member brings.")


class _Step:
    """One heartbeat of a member that is in the group, or is now."""

    def __init__(
        self,
        turn: Turn,
        command: ConsumerGroupHeartbeat,
        group: ConsumerGroup,
        start: Joined,
        wish: ConsumerMember,
    ) -> None:
        self.turn = turn
        self.message = command.message
        self.metadata = command.metadata
        self.group = group
        self.start = start
        self.wish = wish

    def response(self) -> ConsumerGroupHeartbeatResponse:
        turn, group, before = self.turn, self.group, self.start.member
        is_new = before.member_id not in group.consumer_members and self.start.replaced is None
        if self.wish != before or is_new:
            turn.log(member_record(group.group_id, self.wish))
        epoch, regexes = self._epoch(is_new)
        target, target_epoch, waits_ms = self._target(epoch, regexes)
        member = reconciled(self.wish, target, target_epoch, self._owner, self.message.topic_partitions)
        if member is not self.wish and member != self.wish:
            turn.log(current_record(group.group_id, member))
            if member.state is MemberState.UNREVOKED:
                expect_revocation(turn, group, member)
            else:
                stop_expecting(turn, group, member.member_id)
        extend_session(turn, group, member.member_id)
        if is_new:
            turn.note(
                MemberJoined(
                    group_id=group.group_id,
                    at_ms=turn.now_ms,
                    member_id=member.member_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    group_instance_id=member.instance_id,
                )
            )
        return self._answer(member, waits_ms)

    def _owner(self, topic_id: object, index: int) -> str | None:
        """Return who has the partition; what a static member had is its successor's."""
        owner = self.group.owner(topic_id, index)  # type: ignore[arg-type]  # The id of a topic.
        replaced = self.start.replaced
        return self.wish.member_id if replaced is not None and owner == replaced.member_id else owner

    def _epoch(self, is_new: bool) -> tuple[int, Mapping[str, Resolved]]:
        """Return the group epoch and what expressions stand for, after what this heartbeat changes."""
        turn, group, before, wish = self.turn, self.group, self.start.member, self.wish
        has_new_wish = is_new or (wish.topic_names, wish.topic_regex) != (
            before.topic_names,
            before.topic_regex,
        )
        regexes = self._regexes(before)
        has_new_topics = any(
            regex not in group.regexes or group.regexes[regex].topics != resolved.topics
            for regex, resolved in regexes.items()
        )
        if not (has_new_wish or has_new_topics) and group.metadata_version == self.metadata.version:
            return group.epoch, regexes
        names = set(group.name_counts) | topics_of(wish, regexes)
        if wish.topic_names != before.topic_names:
            names -= {name for name in before.topic_names if group.name_counts[name] <= 1}
            names |= topics_of(wish, regexes)
        for regex in group.regex_counts:
            if regex in regexes:
                names |= regexes[regex].topics
        hash_now = metadata_hash(names, self.metadata)
        group.metadata_version = self.metadata.version
        topics = self.metadata.topics
        group.topic_names = {topics[name].topic_id: name for name in sorted(names) if name in topics}
        if not (has_new_wish or has_new_topics) and hash_now == group.metadata_hash:
            return group.epoch, regexes
        # No target was made for this epoch yet, so that one for other topics can still be.
        is_open = not has_new_wish and group.epoch > group.assignment_epoch
        epoch = group.epoch if is_open else group.epoch + 1
        turn.log(epoch_record(group.group_id, epoch, hash_now))
        return epoch, regexes

    def _regexes(self, before: ConsumerMember) -> dict[str, Resolved]:
        """Return what every expression of the group stands for, and log what is new of that."""
        turn, group, wish = self.turn, self.group, self.wish
        wanted = dict.fromkeys(group.regex_counts)
        if wish.topic_regex:
            wanted[wish.topic_regex] = None
        former = before.topic_regex
        if former and former != wish.topic_regex and group.regex_counts[former] <= 1:
            wanted.pop(former, None)
            if former in group.regexes:
                turn.log(regex_tombstone(group.group_id, former))
        if not wanted:
            return {}
        refresh_ms = turn.config.group_consumer_regex_refresh_interval_ms
        found = resolved_anew(group, wanted, self.metadata, turn.now_ms, refresh_ms)
        if found:
            group.regexes_seen_ms = turn.now_ms
        for regex, resolved in found.items():
            turn.log(regex_record(group.group_id, regex, resolved))
        kept = {regex: group.regexes[regex] for regex in wanted if regex not in found}
        return {**kept, **found}

    def _target(self, epoch: int, regexes: Mapping[str, Resolved]) -> tuple[Partitions, int, int | None]:
        """Return what the member shall have, from which epoch on, and how long a new target has to wait."""
        turn, group, wish, replaced = self.turn, self.group, self.wish, self.start.replaced
        heir = wish.member_id if replaced is None else replaced.member_id
        target = group.targets.get(heir, {})
        if epoch <= group.assignment_epoch:
            return target, group.assignment_epoch, None
        waits_ms = self._waits_ms()
        if waits_ms > 0:
            return target, group.assignment_epoch, waits_ms
        members = {**group.consumer_members, wish.member_id: wish}
        current = {member_id: group.targets.get(member_id, {}) for member_id in members}
        if replaced is not None and replaced.member_id != wish.member_id:
            members.pop(replaced.member_id, None)
            current[wish.member_id] = target
        targets = update_target(turn, group, epoch, Wishes(members, current, regexes, self.metadata))
        group.assigned_at_ms = turn.now_ms
        return targets[wish.member_id], epoch, None

    def _waits_ms(self) -> int:
        """Return how long it is until the group may be assigned again: many changes share one assignment."""
        group = self.group
        if group.assigned_at_ms is None:
            return 0
        interval_ms = self.turn.config.group_consumer_assignment_interval_ms
        return group.assigned_at_ms + interval_ms - self.turn.now_ms

    def _answer(self, member: ConsumerMember, waits_ms: int | None) -> ConsumerGroupHeartbeatResponse:
        """Return the answer; with the assignment where the member tells all of itself, or got another one.

        A member that has to wait for the next assignment is asked to come as soon as that may be made.
        """
        message = self.message
        tells_all = message.member_epoch == JOINING or (
            message.rebalance_timeout_ms != -1
            and (message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None)
            and message.topic_partitions is not None
        )
        assignment = None
        if tells_all or not same_partitions(self.start.member.assigned, member.assigned):
            assignment = ConsumerGroupHeartbeatAssignment(
                topic_partitions=tuple(
                    ConsumerGroupHeartbeatTopicPartitions(
                        topic_id=topic_id, partitions=tuple(sorted(member.assigned[topic_id]))
                    )
                    for topic_id in sorted(member.assigned)
                )
            )
        interval_ms = self.turn.config.group_consumer_heartbeat_interval_ms
        return ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=interval_ms if waits_ms is None else min(interval_ms, waits_ms),
            assignment=assignment,
        )
