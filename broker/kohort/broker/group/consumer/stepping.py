"""One heartbeat of a member: perhaps a new group epoch, then a new target assignment, then reconciliation."""

from collections.abc import Callable, Mapping
from functools import partial
from uuid import UUID

from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.joining import Joined
from kohort.broker.group.consumer.member import ConsumerMember, Resolved
from kohort.broker.group.consumer.reconciling import Owned, check_state, reconciled
from kohort.broker.group.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from kohort.broker.group.consumer.sessions import extend_session, stop_awaiting
from kohort.broker.group.consumer.subscriptions import resolved_anew, topics_of
from kohort.broker.group.consumer.target import assign
from kohort.broker.group.epochs.partitions import Partitions
from kohort.broker.group.epochs.rebalancing import epoch_grows, member_stepped
from kohort.broker.group.epochs.sessions import expect_revocation, stop_expecting
from kohort.broker.group.epochs.target import TargetBuilder
from kohort.broker.group.events import CauseKind, MemberJoined
from kohort.broker.group.metadata import Metadata, metadata_hash
from kohort.broker.group.notes import fields_of, member_cause
from kohort.broker.group.turn import Turn


class Step:
    """One heartbeat, or one JoinGroup, of a member that is in the group, or is now."""

    def __init__(
        self,
        turn: Turn,
        metadata: Metadata,
        group: ConsumerGroup,
        start: Joined,
        *,
        may_describe: Callable[[str], bool],
    ) -> None:
        self.turn = turn
        self.metadata = metadata
        self.group = group
        self.start = start
        self.wish = start.member
        self.may_describe = may_describe
        self._has_new_topics = False  # Whether the member's subscribed topics may have changed.
        self.wait_ms: int | None = None
        """How long it is until the group may be assigned, where it was not for that."""

    def taken(self, wish: ConsumerMember, owned: Owned) -> ConsumerMember:
        """Return the member after its step, which is logged. Raises: ApiError, and then nothing is logged."""
        check_state(self.start.member, owned)
        self.wish = wish
        self.group.overrides = self.metadata.group_config(self.group.group_id)
        turn, group, before = self.turn, self.group, self.start.member
        is_new = before.member_id not in group.members and self.start.replaced is None
        if self.wish != before or is_new:
            turn.log(member_record(group.group_id, self.wish))
        epoch, regexes = self._epoch(is_new)
        target, target_epoch = self._target(epoch, regexes)
        reads = self._reads(regexes) if self._has_new_topics or target_epoch < epoch else None
        member = reconciled(self.wish, target, target_epoch, self._owner, owned, reads=reads)
        member_stepped(turn, group, member, epoch)
        if member is not self.wish and member != self.wish:
            turn.log(current_record(group.group_id, member))
            if member.is_revoking and member.classic is None:
                expect_revocation(turn, group, member)
            else:
                stop_expecting(turn, group, member.member_id)
        extend_session(turn, group, member)
        if member.classic is None:
            stop_awaiting(turn, group, member.member_id)
        if is_new:
            turn.note(MemberJoined(**fields_of(turn, group, member)))
        return member

    def _owner(self, topic_id: object, index: int) -> str | None:
        """Return the owner of the partition; a static member's partitions are its successor's."""
        owner = self.group.owner(topic_id, index)  # type: ignore[arg-type]  # The id of a topic.
        replaced = self.start.replaced
        return self.wish.member_id if replaced is not None and owner == replaced.member_id else owner

    def _epoch(self, is_new: bool) -> tuple[int, Mapping[str, Resolved]]:
        """Return the group epoch and the topics of expressions, after the changes of this heartbeat."""
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
        self._has_new_topics = has_new_wish or has_new_topics
        if not self._has_new_topics and group.metadata_version == self.metadata.version:
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
        kind = CauseKind.METADATA_CHANGED
        if has_new_wish:
            kind = CauseKind.MEMBER_JOINED if is_new else CauseKind.SUBSCRIPTION_CHANGED
        epoch_grows(turn, group, member_cause(turn, kind, wish))
        return epoch, regexes

    def _reads(self, regexes: Mapping[str, Resolved]) -> frozenset[UUID]:
        """Return the existing topics that the member subscribes to."""
        topics = self.metadata.topics
        return frozenset(topics[name].topic_id for name in topics_of(self.wish, regexes) if name in topics)

    def _regexes(self, before: ConsumerMember) -> dict[str, Resolved]:
        """Return the topics of every expression of the group, and log the changed ones."""
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
        found = resolved_anew(
            group, wanted, self.metadata, turn.now_ms, refresh_ms, may_describe=self.may_describe
        )
        if found:
            group.regexes_seen_ms = turn.now_ms
        for regex, resolved in found.items():
            turn.log(regex_record(group.group_id, regex, resolved))
        kept = {regex: group.regexes[regex] for regex in wanted if regex not in found}
        return {**kept, **found}

    def _target(self, epoch: int, regexes: Mapping[str, Resolved]) -> tuple[Partitions, int]:
        """Return the member's target assignment, and its epoch."""
        turn, group, wish, replaced = self.turn, self.group, self.wish, self.start.replaced
        heir = wish.member_id if replaced is None else replaced.member_id
        target = group.targets.get(heir, {})
        if epoch <= group.assignment_epoch:
            return target, group.assignment_epoch
        builder = TargetBuilder(
            turn, group, nothing={}, target_record=target_record, epoch_record=target_epoch_record
        )
        interval_ms = turn.config.group_consumer_assignment_interval_ms
        wait_ms = builder.wait_ms("consumer.assignment.interval.ms", interval_ms)
        if wait_ms > 0 and wish.classic is None:  # A joining member can't be told to come later.
            self.wait_ms = wait_ms
            return target, group.assignment_epoch
        builder.put(wish, replaced)
        targets = builder.build(
            epoch,
            partial(
                assign,
                regexes=regexes,
                metadata=self.metadata,
                default_assignor=turn.config.default_consumer_assignor,
            ),
        )
        return targets[wish.member_id], epoch
