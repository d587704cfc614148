"""ShareFetch: returns records to a member, which acknowledges earlier ones in the same request.

Source: KafkaApis.handleShareFetchRequest, SharePartitionManager, DelayedShareFetch. Acknowledgements
are applied first, so that released records are available for the fetch; both are answered together.
"""

from collections.abc import Sequence

from kohort.broker.coordination.share_partitions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    ShareSession,
    TopicIdPartition,
)
from kohort.broker.coordination.shares import Shares
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.handlers.share.share_fetch_wait import ShareFetching, failed
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse


def handle(sharing: ShareServices, message: ShareFetchRequest, request: Request) -> ShareFetchResponse | None:
    """Return why the request fails as a whole; else it is answered once there is something."""
    if not sharing.is_enabled:
        return failed(ErrorCode.UNSUPPORTED_VERSION)
    try:
        shares = sharing.shares()
        session = _session(shares, message, request)
    except ApiError as error:
        return failed(error.code)
    ShareFetching(sharing, shares, message, request, session).begin()
    return None


def _session(shares: Shares, message: ShareFetchRequest, request: Request) -> ShareSession:
    """Return the member's session, updated by the request. Raises: ApiError."""
    group_id, member_id, epoch = message.group_id or "", message.member_id, message.share_session_epoch
    if not member_id:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    named = [(topic.topic_id, each.partition_index) for topic in message.topics for each in topic.partitions]
    if epoch == INITIAL_EPOCH:
        if not group_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if any(each.acknowledgement_batches for topic in message.topics for each in topic.partitions):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        return shares.partitions.open_session(group_id, member_id, named, request.connection.on_close)
    session = shares.partitions.session(group_id, member_id, epoch)
    if epoch != FINAL_EPOCH:
        session.ask_for(named)
        shares.partitions.forget_places(session, _forgotten(message))
    return session


def _forgotten(message: ShareFetchRequest) -> Sequence[TopicIdPartition]:
    return [(topic.topic_id, index) for topic in message.forgotten_topics_data for index in topic.partitions]
