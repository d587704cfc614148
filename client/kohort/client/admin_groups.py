"""The admin client's requests about groups and their offsets."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TypeVar

from kohort.client.admin_values import GroupDescription, GroupListing, MemberDescription
from kohort.client.cluster import Cluster
from kohort.client.errors import BrokerError, check
from kohort.client.offsets import by_topic, commit_offsets, fetch_committed
from kohort.client.values import OffsetAndMetadata, TopicPartition
from kohort.protocol.consumer import ConsumerProtocolAssignment
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kohort.protocol.schema import Message

Answer = TypeVar("Answer", bound=Message)

_LOOK_AGAIN = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
GROUP_ID_NOT_FOUND_SINCE = 6  # Before, DescribeGroups answered with a group in the state Dead.
STATES_SINCE, TYPES_SINCE = 4, 5


class GroupAdmin:
    """Requests that a group's coordinator answers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def listing(self, states: tuple[str, ...], types: tuple[str, ...]) -> tuple[GroupListing, ...]:
        """Return the groups of all brokers, sorted by their ids."""
        await self._cluster.retrying(lambda: self._cluster.refresh_metadata(()))
        found: list[GroupListing] = []
        for node_id in tuple(self._cluster.metadata.nodes):
            answer = await self._cluster.retrying(partial(self._list, node_id, states, types))
            found += (_listing(each) for each in answer.groups)
        return tuple(sorted(found, key=lambda each: each.group_id))

    async def _list(
        self, node_id: int, states: tuple[str, ...], types: tuple[str, ...]
    ) -> ListGroupsResponse:
        connection = await self._cluster.connection(node_id)
        version = connection.version_of(ListGroupsRequest)
        request = ListGroupsRequest(
            states_filter=states if version >= STATES_SINCE else (),
            types_filter=types if version >= TYPES_SINCE else (),
        )
        answer = await connection.request(
            request, ListGroupsResponse, timeout_ms=self._cluster.config.request_timeout_ms
        )
        check(answer.error_code)
        return answer

    async def describe(self, group_id: str) -> GroupDescription:
        """Return a group with its members. Raises: BrokerError if it does not exist."""
        request = DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=False)

        async def attempt() -> DescribedGroup:
            answer = await self._cluster.request_coordinator(group_id, request, DescribeGroupsResponse)
            group = answer.groups[0]
            self._check(group_id, group.error_code, group.error_message)
            return group

        group = await self._cluster.retrying(attempt)
        if group.group_state == "Dead":
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return GroupDescription(
            group_id,
            group.group_state,
            group.protocol_type,
            group.protocol_data,
            await self._cluster.coordinator(group_id),
            tuple(_member(each) for each in group.members),
        )

    async def delete(self, group_id: str) -> None:
        """Delete a group with its offsets. Raises: BrokerError."""
        request = DeleteGroupsRequest(groups_names=(group_id,))

        async def attempt() -> None:
            answer = await self._cluster.request_coordinator(group_id, request, DeleteGroupsResponse)
            for each in answer.results:
                self._check(group_id, each.error_code, each.error_message)

        await self._cluster.retrying(attempt)

    async def offsets(
        self, group_id: str, partitions: tuple[TopicPartition, ...] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what a group has committed. Raises: BrokerError."""
        return await self._cluster.retrying(lambda: fetch_committed(self._cluster, group_id, partitions))

    async def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit in the name of a group that has no members. Raises: CommitFailedError, BrokerError."""
        await self._cluster.retrying(lambda: commit_offsets(self._cluster, group_id, offsets))

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Let a group forget its offsets of these partitions. Raises: BrokerError."""
        topics = by_topic(
            partitions, lambda each: OffsetDeleteRequestPartition(partition_index=each.partition)
        )
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=tuple(
                OffsetDeleteRequestTopic(name=name, partitions=items) for name, items in topics.items()
            ),
        )

        async def attempt() -> OffsetDeleteResponse:
            answer = await self._cluster.request_coordinator(group_id, request, OffsetDeleteResponse)
            self._check(group_id, answer.error_code, None)
            return answer

        answer = await self._cluster.retrying(attempt)
        for topic in answer.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                check(each.error_code, f"partition {where}" if each.error_code else None)

    def _check(self, group_id: str, code: int, message: str | None) -> None:
        if code in _LOOK_AGAIN:
            self._cluster.forget_coordinator(group_id)
        check(code, message)


def _listing(told: ListedGroup) -> GroupListing:
    return GroupListing(told.group_id, told.protocol_type, told.group_state, told.group_type)


def _member(told: DescribedGroupMember) -> MemberDescription:
    assignment: dict[str, tuple[int, ...]] = {}
    if told.member_assignment:
        try:
            decoded = ConsumerProtocolAssignment.decode_versioned(told.member_assignment)
        except WireError:  # A group of another protocol, such as Connect's: its bytes are its own.
            decoded = ConsumerProtocolAssignment(assigned_partitions=())
        assignment = {each.topic: tuple(sorted(each.partitions)) for each in decoded.assigned_partitions}
    return MemberDescription(
        told.member_id, told.group_instance_id, told.client_id, told.client_host, assignment
    )
