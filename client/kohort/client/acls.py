"""Access control entries, as the Admin takes and returns them."""

import msgspec

from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType

__all__ = ["Acl", "AclFilter", "AclOperation", "AclPatternType", "AclPermission", "AclResourceType"]


class Acl(msgspec.Struct, frozen=True):
    """Who may, or may not, do what to which resource: one access control entry.

    `principal` is `User:NAME`, or `User:*` for anybody; the name `*` stands for all resources of the type.
    """

    principal: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str
    pattern: AclPatternType = AclPatternType.LITERAL
    host: str = "*"
    permission: AclPermission = AclPermission.ALLOW


class AclFilter(msgspec.Struct, frozen=True):
    """Which access control entries are meant; what is left out may be anything.

    With the pattern MATCH those that hold for a resource of that name: its own, `*`, and each prefix.
    """

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern: AclPatternType = AclPatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY


EVERY_ACL = AclFilter()
