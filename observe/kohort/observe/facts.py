"""What the cluster answered, for those who read its records."""

from uuid import UUID

import msgspec

from kohort.observe.kinds import SHARE, STREAMS


class Facts(msgspec.Struct):
    """Settings and topics of the cluster; 0 and empty for what is not known.

    `ends` has the end of each partition's log, by topic, as it was at the last look.
    """

    offsets_retention_ms: int = 0
    session_timeout_ms: int = 0
    """Of consumer groups: group.consumer.session.timeout.ms."""
    share_session_timeout_ms: int = 0
    streams_session_timeout_ms: int = 0
    group_session_timeouts_ms: dict[str, int] = {}
    """Of groups with epochs, as far as asked: a group may have its own."""
    transaction_timeout_ms_max: int = 0
    """transaction.max.timeout.ms: a coordinator aborts what is open for longer."""
    ends: dict[str, dict[int, int]] = {}
    topic_names: dict[UUID, str] = {}
    partition_counts: dict[str, int] = {}
    knows_all_groups: bool = False
    """Whether a group that is met for the first time is a new one: the log was read to its end before."""

    def session_timeout_of(self, kind: str, group_id: str) -> int:
        """Return the session timeout of the members of a group with epochs, 0 where it is not known."""
        own_ms = self.group_session_timeouts_ms.get(group_id, 0)
        if own_ms:
            return own_ms
        timeouts = {SHARE: self.share_session_timeout_ms, STREAMS: self.streams_session_timeout_ms}
        return timeouts.get(kind, self.session_timeout_ms)

    def end_offset(self, topic: str, partition: int) -> int:
        """Return the end of a partition's log, -1 where it is not known."""
        return self.ends.get(topic, {}).get(partition, -1)
