"""The admin client's requests about groups and their offsets."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from kohort.client.admin_items import AdminCalls, outcome, settle
from kohort.client.admin_values import GroupDescription, GroupListing
from kohort.client.arguments import one_by_one
from kohort.client.cluster import COORDINATOR_MOVED
from kohort.client.errors import KohortError, UnsupportedVersionError, check
from kohort.client.group_descriptions import GROUP_TYPES
from kohort.client.offsets import by_topic, commit_offsets, fetch_committed
from kohort.client.values import Node, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

Result = TypeVar("Result")
GroupOutcomes = dict[str, Result | KohortError]

STATES_SINCE, TYPES_SINCE = 4, 5
REMOVED = "member was removed by an admin"


class GroupAdmin(AdminCalls):
    """Calls that a group's coordinator answers."""

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[GroupListing, ...]:
        """Return the groups of all brokers, sorted by id; of these states and types only, if given."""
        chosen = tuple(states), tuple(types)
        await self._cluster.retrying(lambda: self._cluster.refresh_metadata(()))
        found: list[GroupListing] = []
        for node_id in tuple(self._cluster.metadata.nodes):
            answer = await self._cluster.retrying(partial(self._list, node_id, *chosen))
            found += (_listing(each) for each in answer.groups)
        return tuple(sorted(found, key=lambda each: each.group_id))

    async def _list(
        self, node_id: int, states: tuple[str, ...], types: tuple[str, ...]
    ) -> ListGroupsResponse:
        connection = await self._cluster.connection(node_id)
        version = connection.version_of(ListGroupsRequest)
        if (states and version < STATES_SINCE) or (types and version < TYPES_SINCE):
            raise UnsupportedVersionError(f"{connection.address} can't choose groups by state or type")
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        answer = await connection.request(
            request, ListGroupsResponse, timeout_ms=self._cluster.config.request_timeout_ms
        )
        check(answer.error_code)
        return answer

    async def describe_groups(self, *group_ids: str) -> dict[str, GroupDescription]:
        """Return these groups, of any type, with their members. Raises: ItemsError if one does not exist."""

        async def ask(node: Node, wanted: tuple[str, ...]) -> GroupOutcomes[GroupDescription]:
            connection = await self._cluster.connection_to(node)
            found: GroupOutcomes[GroupDescription] = {}
            for (
                group_type
            ) in GROUP_TYPES:  # The next one is asked about groups that the last one does not know.
                unknown = tuple(each for each in wanted if each not in found or _is_not_there(found[each]))
                if not unknown:
                    break
                request = group_type.ask(unknown)
                if not connection.speaks(type(request)):
                    continue
                answer = await connection.request(
                    request, group_type.answer, timeout_ms=self._cluster.config.request_timeout_ms
                )
                for group_id, each in group_type.read(answer, node).items():
                    if group_id not in found or not _is_not_there(each):
                        found[group_id] = each
            return found

        return await self._by_coordinator(one_by_one(group_ids, str, "describe_groups"), ask)

    async def delete_groups(self, *group_ids: str) -> None:
        """Delete these groups with their offsets; they must be empty. Raises: ItemsError."""

        async def ask(node: Node, wanted: tuple[str, ...]) -> GroupOutcomes[None]:
            request = DeleteGroupsRequest(groups_names=wanted)
            connection = await self._cluster.connection_to(node)
            answer = await connection.request(
                request, DeleteGroupsResponse, timeout_ms=self._cluster.config.request_timeout_ms
            )
            return {
                each.group_id: outcome(each.error_code, each.error_message, None) for each in answer.results
            }

        await self._by_coordinator(one_by_one(group_ids, str, "delete_groups"), ask)

    async def remove_group_members(
        self,
        group_id: str,
        *,
        member_ids: Iterable[str] = (),
        group_instance_ids: Iterable[str] = (),
        reason: str = REMOVED,
    ) -> None:
        """Remove these members from the group, or all if none is named.

        Raises: ItemsError by member id or group instance id.
        """
        names = [*((each, None) for each in member_ids), *(("", each) for each in group_instance_ids)]
        if not names:
            members = (await self.describe_groups(group_id))[group_id].members
            names = [(each.member_id, None) for each in members]

        async def ask(
            wanted: tuple[tuple[str, str | None], ...],
        ) -> dict[tuple[str, str | None], KohortError | None]:
            request = LeaveGroupRequest(
                group_id=group_id,
                member_id="",
                members=tuple(
                    MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=reason)
                    for member_id, instance_id in wanted
                ),
            )
            answer = await self._cluster.request_coordinator(group_id, request, LeaveGroupResponse)
            self._cluster.check_coordinated(group_id, answer.error_code)
            return {
                (each.member_id if instance_id is None else "", instance_id): outcome(
                    each.error_code, None, None
                )
                for each, (_, instance_id) in zip(answer.members, wanted, strict=True)
            }

        await settle(self._cluster, names, ask)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed, of all partitions or of these."""
        return (await self.list_offsets_of_groups({group_id: partitions}))[group_id]

    async def list_offsets_of_groups(
        self, groups: Mapping[str, Iterable[TopicPartition] | None]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets that each group has committed, of all partitions (None) or of those given.

        Raises: ItemsError.
        """
        partitions = {group: None if given is None else tuple(given) for group, given in groups.items()}

        async def ask(group_ids: tuple[str, ...]) -> GroupOutcomes[dict[TopicPartition, OffsetAndMetadata]]:
            found: GroupOutcomes[dict[TopicPartition, OffsetAndMetadata]] = {}
            for group_id in group_ids:
                try:
                    found[group_id] = await fetch_committed(self._cluster, group_id, partitions[group_id])
                except KohortError as error:
                    found[group_id] = error
            return found

        return await settle(self._cluster, partitions, ask)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Commit offsets for a group that has no members. Raises: CommitFailedError, BrokerError."""
        await self._cluster.retrying(lambda: commit_offsets(self._cluster, group_id, offsets))

    async def delete_group_offsets(self, group_id: str, *partitions: TopicPartition) -> None:
        """Delete a group's offsets of partitions that it does not subscribe to.

        Raises: ItemsError, BrokerError.
        """

        async def ask(wanted: tuple[TopicPartition, ...]) -> dict[TopicPartition, KohortError | None]:
            topics = by_topic(
                wanted, lambda each: OffsetDeleteRequestPartition(partition_index=each.partition)
            )
            request = OffsetDeleteRequest(
                group_id=group_id,
                topics=tuple(
                    OffsetDeleteRequestTopic(name=name, partitions=items) for name, items in topics.items()
                ),
            )
            answer = await self._cluster.request_coordinator(group_id, request, OffsetDeleteResponse)
            self._cluster.check_coordinated(group_id, answer.error_code)
            return {
                TopicPartition(topic.name, each.partition_index): outcome(each.error_code, None, None)
                for topic in answer.topics
                for each in topic.partitions
            }

        await settle(self._cluster, partitions, ask)

    async def _by_coordinator(
        self,
        group_ids: tuple[str, ...],
        ask: Callable[[Node, tuple[str, ...]], Awaitable[GroupOutcomes[Result]]],
    ) -> dict[str, Result]:
        """Return the answers of the coordinators, each asked once about all of its groups."""

        async def ask_all(wanted: tuple[str, ...]) -> GroupOutcomes[Result]:
            nodes: dict[Node, list[str]] = {}
            for group_id in wanted:
                nodes.setdefault(await self._cluster.coordinator(group_id), []).append(group_id)
            found: GroupOutcomes[Result] = {}
            for node, groups in nodes.items():
                try:
                    found.update(await ask(node, tuple(groups)))
                except KohortError as error:
                    found.update(dict.fromkeys(groups, error))
            for group_id, each in found.items():
                if isinstance(each, KohortError) and (each.retriable or each.code in COORDINATOR_MOVED):
                    self._cluster.forget_coordinator(group_id)
            return found

        return await settle(self._cluster, group_ids, ask_all)


def _is_not_there(outcome: object) -> bool:
    return isinstance(outcome, KohortError) and outcome.code == ErrorCode.GROUP_ID_NOT_FOUND


def _listing(told: ListedGroup) -> GroupListing:
    return GroupListing(told.group_id, told.protocol_type, told.group_state, told.group_type)
