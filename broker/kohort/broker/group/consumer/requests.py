"""Checks of a heartbeat that do not need its group.

Kafka: GroupMetadataManager.throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from collections.abc import Sequence

from kohort.broker.group.epochs.members import AWAY, JOINING, LEAVING, refuse_if
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

VERSION_OF_OWN_MEMBER_IDS = 1  # From here on members make their ids themselves (KIP-1082).


def check_heartbeat(message: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Pass a heartbeat that can be meant. Raises: ApiError, with Kafka's words."""
    refuse_if(not message.group_id, "GroupId can't be empty.")
    refuse_if(message.instance_id == "", "InstanceId can't be empty.")
    refuse_if(message.rack_id == "", "RackId can't be empty.")
    epoch = message.member_epoch
    refuse_if(epoch < AWAY, "MemberEpoch is invalid.")
    if version >= VERSION_OF_OWN_MEMBER_IDS or epoch != JOINING:
        refuse_if(not message.member_id, "MemberId can't be empty.")
    if epoch == JOINING:
        _check_join(message, version)
    elif epoch == AWAY:
        refuse_if(message.instance_id is None, "InstanceId can't be null.")
    assignor = message.server_assignor
    if epoch not in (LEAVING, AWAY) and assignor is not None and assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(message: ConsumerGroupHeartbeatRequest, version: int) -> None:
    refuse_if(message.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
    refuse_if(
        message.topic_partitions is None or len(message.topic_partitions) > 0,
        "TopicPartitions must be empty when (re-)joining.",
    )
    if version < VERSION_OF_OWN_MEMBER_IDS:
        refuse_if(not message.subscribed_topic_names, "SubscribedTopicNames must be set in first request.")
    else:
        refuse_if(
            not message.subscribed_topic_names and not message.subscribed_topic_regex,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
