"""ShareAcknowledge: acknowledgements without a fetch. Kafka: KafkaApis, KIP-932."""

from itertools import groupby
from operator import itemgetter

from kohort.broker.coordination.share_partitions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    ShareSession,
    TopicIdPartition,
)
from kohort.broker.coordination.shares import Shares
from kohort.broker.handlers.share.acknowledgements import PendingAcknowledgements
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.handlers.share.leaders import endpoints_of, leader_of
from kohort.broker.metadata import Snapshot
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.share_acknowledge import (
    ShareAcknowledgeLeaderIdAndEpoch,
    ShareAcknowledgeNodeEndpoint,
    ShareAcknowledgePartitionResponse,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(
    sharing: ShareServices, message: ShareAcknowledgeRequest, request: Request
) -> ShareAcknowledgeResponse | None:
    """Acknowledge; answered once every acknowledgement is durable or refused."""
    if not sharing.is_enabled:
        return _failed(ErrorCode.UNSUPPORTED_VERSION)
    if not message.member_id:
        return _failed(ErrorCode.INVALID_REQUEST)
    if message.share_session_epoch == INITIAL_EPOCH:
        return _failed(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    shares = sharing.shares()
    try:
        session = shares.partitions.session(
            message.group_id or "", message.member_id, message.share_session_epoch
        )
    except ApiError as error:
        return _failed(error.code)
    _Acknowledging(sharing, shares, message, request, session).begin()
    return None


class _Acknowledging:
    """One running request."""

    def __init__(
        self,
        sharing: ShareServices,
        shares: Shares,
        message: ShareAcknowledgeRequest,
        request: Request,
        session: ShareSession,
    ) -> None:
        self._sharing = sharing
        self._shares = shares
        self._message = message
        self._request = request
        self._session = session
        self._acknowledgements = PendingAcknowledgements(self._finish)

    def begin(self) -> None:
        message, session = self._message, self._session
        told = [
            ((topic.topic_id, each.partition_index), each.acknowledgement_batches)
            for topic in message.topics
            for each in topic.partitions
        ]
        self._acknowledgements.submit(
            self._sharing,
            self._shares,
            session.group_id,
            session.member_id,
            told,
            may_renew=message.is_renew_ack,
        )

    def _finish(self) -> None:
        if self._message.share_session_epoch == FINAL_EPOCH:
            self._shares.partitions.close_session(self._session)
        snapshot = self._sharing.groups.metadata.snapshot()
        codes = self._acknowledgements.codes
        settings = self._shares.partitions.settings_of(self._session.group_id)
        self._request.respond(
            ShareAcknowledgeResponse(
                throttle_time_ms=0,
                error_code=ErrorCode.NONE,
                acquisition_lock_timeout_ms=settings.share_record_lock_duration_ms,
                responses=tuple(
                    ShareAcknowledgeTopicResponse(
                        topic_id=topic_id,
                        partitions=tuple(_partition(snapshot, place, codes[place]) for place in places),
                    )
                    for topic_id, places in groupby(sorted(codes), key=itemgetter(0))
                ),
                node_endpoints=tuple(
                    ShareAcknowledgeNodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
                    for node_id, host, port, rack in endpoints_of(
                        snapshot, codes, self._request.connection.listener
                    )
                ),
            )
        )


def _partition(
    snapshot: Snapshot, place: TopicIdPartition, code: ErrorCode
) -> ShareAcknowledgePartitionResponse:
    leader_id, leader_epoch = leader_of(snapshot, place, code)
    return ShareAcknowledgePartitionResponse(
        partition_index=place[1],
        error_code=code,
        current_leader=ShareAcknowledgeLeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
    )


def _failed(code: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        throttle_time_ms=0, error_code=code, acquisition_lock_timeout_ms=0, responses=(), node_endpoints=()
    )
