"""The admin client's requests about access control entries."""

from collections.abc import Mapping
from typing import TypeVar

from kohort.client.acls import EVERY_ACL, Acl, AclFilter
from kohort.client.admin_items import AdminCalls, outcome, settle
from kohort.client.errors import KohortError, check
from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kohort.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kohort.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kohort.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


class AclAdmin(AdminCalls):
    """Calls that any broker answers."""

    async def list_acls(self, wanted: AclFilter = EVERY_ACL) -> tuple[Acl, ...]:
        """Return the access control entries that match a filter. Raises: BrokerError."""
        answer = await self._ask_any(_filter(DescribeAclsRequest, wanted), DescribeAclsResponse)
        check(answer.error_code, answer.error_message)
        return tuple(_acl(resource, each) for resource in answer.resources for each in resource.acls)

    async def create_acls(self, *acls: Acl) -> None:
        """Add these access control entries. Raises: ItemsError."""

        async def ask(wanted: tuple[Acl, ...]) -> Mapping[Acl, KohortError | None]:
            creations = tuple(
                AclCreation(
                    resource_type=each.resource_type,
                    resource_name=each.name,
                    resource_pattern_type=each.pattern,
                    principal=each.principal,
                    host=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
                for each in wanted
            )
            answer = await self._cluster.request_any(
                CreateAclsRequest(creations=creations), CreateAclsResponse
            )
            return {
                acl: outcome(each.error_code, each.error_message, None)
                for acl, each in zip(wanted, answer.results, strict=False)
            }

        await settle(self._cluster, acls, ask)

    async def delete_acls(self, *filters: AclFilter) -> tuple[Acl, ...]:
        """Delete the access control entries that match these filters, and return them. Raises: ItemsError."""

        async def ask(wanted: tuple[AclFilter, ...]) -> Mapping[AclFilter, tuple[Acl, ...] | KohortError]:
            asked = tuple(_filter(DeleteAclsFilter, each) for each in wanted)
            answer = await self._cluster.request_any(DeleteAclsRequest(filters=asked), DeleteAclsResponse)
            return {one: _deleted(each) for one, each in zip(wanted, answer.filter_results, strict=False)}

        found = await settle(self._cluster, filters, ask)
        return tuple(dict.fromkeys(acl for some in found.values() for acl in some))


Filter = TypeVar("Filter", DescribeAclsRequest, DeleteAclsFilter)


def _filter(kind: type[Filter], wanted: AclFilter) -> Filter:
    return kind(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _deleted(result: DeleteAclsFilterResult) -> tuple[Acl, ...] | KohortError:
    for each in result.matching_acls:
        if each.error_code:
            return outcome(each.error_code, each.error_message, ())
    deleted = tuple(_acl(each, each) for each in result.matching_acls)
    return outcome(result.error_code, result.error_message, deleted)


def _acl(
    resource: DescribeAclsResource | DeleteAclsMatchingAcl, entry: AclDescription | DeleteAclsMatchingAcl
) -> Acl:
    return Acl(
        entry.principal,
        AclOperation(entry.operation),
        AclResourceType(resource.resource_type),
        resource.resource_name,
        pattern=AclPatternType(resource.pattern_type),
        host=entry.host,
        permission=AclPermission(entry.permission_type),
    )
