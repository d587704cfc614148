"""Access control entries, as the Admin takes and returns them."""

import msgspec

from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType

__all__ = ["Acl", "AclFilter", "AclOperation", "AclPatternType", "AclPermission", "AclResourceType"]


class Acl(msgspec.Struct, frozen=True):
    """One access control entry: a principal is allowed or denied an operation on a resource.

    `principal` is `User:NAME`, or `User:*` for all users; the name `*` stands for all resources of the type.
    """

    principal: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str
    pattern: AclPatternType = AclPatternType.LITERAL
    host: str = "*"
    permission: AclPermission = AclPermission.ALLOW


class AclFilter(msgspec.Struct, frozen=True):
    """Selects access control entries; an omitted field matches anything.

    With the pattern MATCH all entries that apply to a resource name: its own, `*`, and each prefix.
    """

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern: AclPatternType = AclPatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY


EVERY_ACL = AclFilter()
