"""A member's side of a share group (KIP-932): like a consumer group, but partitions have several members.

Assigned partitions may be read at once, and a revocation needs no confirmation: there are no
handovers. Source: ShareMembershipManager, ShareHeartbeatRequestManager.
"""

from typing import TYPE_CHECKING
from uuid import UUID

from kohort.client.assignors import Owned
from kohort.client.errors import UnsupportedVersionError
from kohort.client.membership.consumer import LEAVING, ConsumerMembership, SentHeartbeat
from kohort.client.membership.requests import SendHeartbeat
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from kohort.client.membership.requests import Answer


class ShareMembership(ConsumerMembership):
    """One member of one share group; the caller makes `member_id`, for the lifetime of its process."""

    resolves_patterns = False

    @property
    def assignment(self) -> Owned:
        """The partitions that it may read, by topic; none outside the group."""
        return {self._names[topic_id]: each for topic_id, each in self._named()}

    @property
    def topic_ids(self) -> dict[str, UUID]:
        """The ids of the topics that it may read."""
        return {self._names[topic_id]: topic_id for topic_id, _ in self._named()}

    def _named(self) -> list[tuple[UUID, tuple[int, ...]]]:
        assigned = (self._assigned or {}).items()
        return [(topic_id, each) for topic_id, each in assigned if topic_id in self._names]

    @property
    def watched_topics(self) -> frozenset[str]:
        """The subscribed topics."""
        return frozenset(self._topics)

    def answered(self, response: "Answer", now_ms: int) -> None:
        """Apply the coordinator's answer to the last heartbeat."""
        assert isinstance(response, ShareGroupHeartbeatResponse)
        self._take_response(response, now_ms)

    def _take(self) -> None:
        self._is_taken = True

    @property
    def _has_news(self) -> bool:
        return self._sent is None or self._sent.topics != self._topics

    def _send(self, epoch: int) -> SendHeartbeat:
        sent = self._sent
        request = ShareGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rack_id=self.settings.rack_id if sent is None else None,
            subscribed_topic_names=self._topics if sent is None or self._topics != sent.topics else None,
        )
        self._sent = SentHeartbeat(self._topics, "", {})
        return SendHeartbeat(request, ShareGroupHeartbeatResponse, self.settings.request_timeout_ms)

    def _leave_heartbeat(self, epoch: int) -> SendHeartbeat:
        request = ShareGroupHeartbeatRequest(
            group_id=self.settings.group_id, member_id=self.member_id, member_epoch=LEAVING
        )
        return SendHeartbeat(request, ShareGroupHeartbeatResponse, self.settings.request_timeout_ms)

    def _not_spoken(self, why: str) -> UnsupportedVersionError:
        return UnsupportedVersionError(
            f"the coordinator of group {self.settings.group_id!r} has no share groups ({why}): they need"
            " Kafka 4.2 or kohort, and the cluster's share.version raised to 1"
        )
