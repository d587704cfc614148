"""The network side of a group membership: a task that runs the requests of the state machine."""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kohort.client.cluster import PATIENCE_MS, Cluster
from kohort.client.connections import GROUP
from kohort.client.errors import BrokerError, KohortError, NetworkError
from kohort.client.membership import (
    ClassicMembership,
    Departure,
    FindCoordinator,
    HandOut,
    Membership,
    NameTopics,
    Send,
    SendHeartbeat,
    State,
    Wait,
)
from kohort.client.retry import Deadline, monotonic_ms
from kohort.client.signal import Signal
from kohort.client.topic_names import topic_names
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kohort.client.consumer_metrics import ConsumerMetrics
    from kohort.client.share.metrics import ShareMetrics

MEMBER_ID_PATIENCE_MS = 1_000  # Brokers before JoinGroup version 4 give ids when the group has formed.

logger = logging.getLogger(__name__)

_AWAY = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class GroupTask:
    """Joins, syncs and heartbeats; `changed` tells it about actions of the user.

    `departed` is called when the member is out without its user's will.
    """

    def __init__(
        self,
        cluster: Cluster,
        membership: Membership,
        news: Callable[[], None],
        metrics: "ConsumerMetrics | ShareMetrics",
        departed: Callable[[], None],
    ) -> None:
        self._departed = departed
        self._departure: Departure | None = None  # The last one that was reported.
        self._cluster = cluster
        self._membership = membership
        self._group_id = membership.settings.group_id
        self._news = news
        self._metrics = metrics
        self._changed = Signal()
        self._performed = Signal()

    def changed(self) -> None:
        """Ask the state machine again: the user has subscribed, polled or given partitions up."""
        self._changed.set()

    def serve(self, membership: Membership) -> None:
        """Go on with another membership: the user has unsubscribed."""
        self._membership = membership
        self._changed.set()

    async def run(self) -> None:
        """Serve the membership until cancelled."""
        while True:
            # An answer belongs to its request, even if the user changes something meanwhile.
            membership = self._membership
            request = membership.next_request(monotonic_ms())
            self._tell_of(membership.departure)
            if isinstance(request, Wait):
                await self._wait(request)
                continue
            try:
                await self._perform(membership, request)
            except KohortError as error:
                if not isinstance(error, NetworkError):  # Already logged.
                    self._warn(error)
                membership.failed(error, monotonic_ms())
            self._performed.set()
            self._news()

    def _tell_of(self, departure: Departure | None) -> None:
        """Say at once that the member is out: its user may never poll again."""
        if departure is not self._departure:
            self._departure = departure
            if departure is not None:
                self._departed()

    async def leave(self, reason: str, timeout_ms: float, *, leave_group: bool | None = None) -> None:
        """Leave the group; an unreachable coordinator notices the end by its session timeout.

        A joining member first waits for its id, for a moment: an id that is neither used nor
        given back delays the group until its session ends.
        """
        deadline = Deadline(min(timeout_ms, MEMBER_ID_PATIENCE_MS))
        while leave_group is not False and self._membership.awaits_member_id and deadline.remaining_ms > 0:
            await self._performed.wait(deadline.remaining_ms)
        request = self._membership.leave(reason, leave_group=leave_group)
        if request is not None:
            await self._send_leave(request, timeout_ms)

    async def _wait(self, wait: Wait) -> None:
        timeout_ms = None if wait.until_ms is None else max(0, wait.until_ms - monotonic_ms())
        await self._changed.wait(timeout_ms)

    async def _perform(
        self, membership: Membership, request: FindCoordinator | Send | SendHeartbeat | HandOut | NameTopics
    ) -> None:
        if isinstance(request, FindCoordinator):
            self._cluster.forget_coordinator(self._group_id)
            await self._cluster.coordinator(self._group_id)
            membership.coordinator_found()
        elif isinstance(request, HandOut):
            assert isinstance(membership, ClassicMembership)
            await self._hand_out(membership, request)
        elif isinstance(request, NameTopics):
            names = await topic_names(self._cluster, request.topic_ids)
            membership.topics_named(names, monotonic_ms())
        elif isinstance(request, SendHeartbeat):
            await self._tell(membership, request)
        else:
            await self._send(membership, request)

    async def _hand_out(self, membership: ClassicMembership, request: HandOut) -> None:
        await self._cluster.refresh_metadata(request.topics)
        if membership.state is not State.ASSIGNING:
            return
        try:
            membership.hand_out(self._cluster.metadata.partition_counts())
        except Exception as error:  # noqa: BLE001 - An assignor is the user's code; poll raises its error.
            membership.assignor_failed(error)

    async def _send(self, membership: Membership, send: Send) -> None:
        request = send.request
        if isinstance(request, LeaveGroupRequest):
            await self._send_leave(request, send.timeout_ms)
            return
        kind: type[JoinGroupResponse | HeartbeatResponse | SyncGroupResponse] = SyncGroupResponse
        if isinstance(request, JoinGroupRequest):
            kind = JoinGroupResponse
            self._metrics.joining()
        elif isinstance(request, HeartbeatRequest):
            kind = HeartbeatResponse
        answer = await self._cluster.request_coordinator(
            self._group_id, request, kind, channel=GROUP, timeout_ms=send.timeout_ms
        )
        if isinstance(answer, SyncGroupResponse):
            self._metrics.synced(answer.error_code)
        self._warn_if_away(answer.error_code)
        membership.answered(answer, monotonic_ms())

    async def _tell(self, membership: Membership, tell: SendHeartbeat) -> None:
        if tell.leaves:
            await self._send_leave(tell, tell.timeout_ms)
            return
        if tell.joins:
            self._metrics.joining()
        answer = await self._cluster.request_coordinator(
            self._group_id, tell.request, tell.answer, channel=GROUP, timeout_ms=tell.timeout_ms
        )
        if answer.assignment is not None or answer.error_code:
            self._metrics.synced(answer.error_code)
        self._warn_if_away(answer.error_code)
        membership.answered(answer, monotonic_ms())

    def _warn_if_away(self, code: int) -> None:
        if code in _AWAY:
            self._warn(BrokerError(code))

    def _warn(self, error: KohortError) -> None:
        what = f"the coordinator of group {self._group_id!r} can't serve it: {error}"
        self._cluster.warnings.say(("group", self._group_id), what, after_ms=PATIENCE_MS)

    async def _send_leave(self, farewell: LeaveGroupRequest | SendHeartbeat, timeout_ms: float) -> None:
        ask = partial(self._cluster.request_coordinator, self._group_id, timeout_ms=timeout_ms)
        try:
            if isinstance(farewell, SendHeartbeat):
                await ask(farewell.request, farewell.answer)
            else:
                await ask(farewell, LeaveGroupResponse)
        except KohortError as error:
            logger.debug("group %s: could not say good-bye: %s", self._group_id, error)
