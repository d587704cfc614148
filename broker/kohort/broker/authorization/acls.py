"""Access control entries, their resource patterns, and filters for them. Pure.

Source: Kafka's ResourcePatternFilter, AccessControlEntryFilter and AclControlManager.
"""

from typing import NamedTuple

from kohort.protocol.acls import (
    ANY_NAME,
    CLUSTER_NAME,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from kohort.protocol.errors import ApiError, ErrorCode


class Pattern(NamedTuple):
    """A pattern of resources: one name, all names of a type, or all names with a prefix."""

    resource_type: AclResourceType
    pattern_type: AclPatternType
    name: str


class Entry(NamedTuple):
    """Allows or denies a principal an operation from a host. `principal` is `User:NAME` or `User:*`."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission


class Binding(NamedTuple):
    """An entry and its resource pattern."""

    pattern: Pattern
    entry: Entry


class Filter(NamedTuple):
    """A filter of bindings. None and ANY match everything."""

    resource_type: int = AclResourceType.ANY
    pattern_type: int = AclPatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = AclPermission.ANY

    def takes_pattern(self, pattern: Pattern) -> bool:
        """Return whether the filter matches the pattern."""
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        own = pattern.pattern_type
        if self.pattern_type not in (AclPatternType.ANY, AclPatternType.MATCH, own):
            return False
        if self.name is None:
            return True
        if self.pattern_type != AclPatternType.MATCH:
            return self.name == pattern.name
        if own == AclPatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name in (self.name, ANY_NAME)

    def takes_entry(self, entry: Entry) -> bool:
        """Return whether the filter matches the entry, regardless of its pattern."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermission.ANY, entry.permission)
        )


def check_filter(wanted: Filter) -> Filter:
    """Return the filter. Raises: ApiError for unknown numbers in it."""
    known = (
        (wanted.resource_type, AclResourceType),
        (wanted.pattern_type, AclPatternType),
        (wanted.operation, AclOperation),
        (wanted.permission, AclPermission),
    )
    for value, kind in known:
        if value == 0 or value not in tuple(kind):
            raise _invalid(f"The filter has an unknown {kind.__name__}: {value}")
    return wanted


def checked_binding(  # noqa: PLR0917  # The seven parts of an entry on the wire.
    resource_type: int,
    pattern_type: int,
    name: str,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> Binding:
    """Return the binding to create. Raises: ApiError for an invalid one."""
    if resource_type <= AclResourceType.ANY or resource_type not in tuple(AclResourceType):
        raise _invalid("Invalid resourceType")
    if resource_type == AclResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise _invalid("Invalid empty resource name")
    if pattern_type not in (AclPatternType.LITERAL, AclPatternType.PREFIXED):
        raise _invalid("Invalid patternType")
    if operation <= AclOperation.ANY or operation not in tuple(AclOperation):
        raise _invalid("Invalid operation")
    if permission not in (AclPermission.ALLOW, AclPermission.DENY):
        raise _invalid("Invalid permissionType")
    kind, colon, who = principal.partition(":")
    if not colon or not kind or not who:
        raise _invalid(f"Could not parse principal from `{principal}`: it is to be TYPE:NAME")
    if not host or any(map(str.isspace, host)):
        raise _invalid("Invalid host: it is to be an address or *")
    return Binding(
        Pattern(AclResourceType(resource_type), AclPatternType(pattern_type), name),
        Entry(principal, host, AclOperation(operation), AclPermission(permission)),
    )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
