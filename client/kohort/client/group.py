"""The network's side of a group membership: a task that does what the state machine asks for."""

import logging
from collections.abc import Callable

from kohort.client.cluster import GROUP, Cluster
from kohort.client.consumer_metrics import ConsumerMetrics
from kohort.client.errors import KohortError
from kohort.client.membership import FindCoordinator, HandOut, Membership, Send, State, Wait
from kohort.client.retry import monotonic_ms
from kohort.client.signal import Signal
from kohort.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupResponse,
)

logger = logging.getLogger(__name__)


class GroupTask:
    """Joins, syncs and heartbeats; `changed` tells it that the user has done something."""

    def __init__(
        self, cluster: Cluster, membership: Membership, news: Callable[[], None], metrics: ConsumerMetrics
    ) -> None:
        self._cluster = cluster
        self._membership = membership
        self._group_id = membership.settings.group_id
        self._news = news
        self._metrics = metrics
        self._changed = Signal()

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
            membership = self._membership  # An answer belongs to who asked, even if the user moves on.
            request = membership.next_request(monotonic_ms())
            if isinstance(request, Wait):
                await self._wait(request)
                continue
            try:
                await self._perform(membership, request)
            except KohortError as error:
                logger.debug("group %s: %s", self._group_id, error)
                membership.failed(error, monotonic_ms())
            self._news()

    async def leave(self, reason: str, timeout_ms: float) -> None:
        """Leave the group; a coordinator that can't be told will find out by itself."""
        request = self._membership.leave(reason)
        if request is not None:
            await self._send_leave(request, timeout_ms)

    async def _wait(self, wait: Wait) -> None:
        timeout_ms = None if wait.until_ms is None else max(0, wait.until_ms - monotonic_ms())
        await self._changed.wait(timeout_ms)

    async def _perform(self, membership: Membership, request: FindCoordinator | Send | HandOut) -> None:
        if isinstance(request, FindCoordinator):
            self._cluster.forget_coordinator(self._group_id)
            await self._cluster.coordinator(self._group_id)
            membership.coordinator_found()
        elif isinstance(request, HandOut):
            await self._hand_out(membership, request)
        else:
            await self._send(membership, request)

    async def _hand_out(self, membership: Membership, request: HandOut) -> None:
        await self._cluster.refresh_metadata(request.topics)
        if membership.state is not State.ASSIGNING:
            return
        try:
            membership.hand_out(self._cluster.metadata.partition_counts())
        except Exception as error:  # noqa: BLE001 - An assignor is the user's code; poll raises what it did.
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
        membership.answered(answer, monotonic_ms())

    async def _send_leave(self, request: LeaveGroupRequest, timeout_ms: float) -> None:
        try:
            await self._cluster.request_coordinator(
                self._group_id, request, LeaveGroupResponse, timeout_ms=timeout_ms
            )
        except KohortError as error:
            logger.debug("group %s: could not say good-bye: %s", self._group_id, error)
