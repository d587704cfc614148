"""The requester of one request, and its permissions."""

from collections.abc import Callable, Iterable
from uuid import UUID

import msgspec

from kohort.broker.audit.audit_log import AuditLog
from kohort.broker.authorization.authorizer import Authorizer
from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.data.fetch_sessions import FetchSessions, Owner
from kohort.broker.metadata import MetadataStore, Snapshot
from kohort.broker.transport.request import Request
from kohort.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import Api

O = AclOperation  # noqa: E741

SUPPORTED = {
    AclResourceType.TOPIC: (
        O.READ,
        O.WRITE,
        O.CREATE,
        O.DESCRIBE,
        O.DELETE,
        O.ALTER,
        O.DESCRIBE_CONFIGS,
        O.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (O.READ, O.DESCRIBE, O.DELETE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    AclResourceType.CLUSTER: (
        O.CREATE,
        O.CLUSTER_ACTION,
        O.DESCRIBE_CONFIGS,
        O.ALTER_CONFIGS,
        O.IDEMPOTENT_WRITE,
        O.ALTER,
        O.DESCRIBE,
    ),
}
"""The operations on a resource. Source: org.apache.kafka.security.authorizer.AclEntry."""

DENIALS = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

Denied = Callable[["Requester", AclOperation, AclResourceType, str], None]


class AuthorizationServices(msgspec.Struct, frozen=True):
    """What decides whether a request is permitted."""

    authorizer: Authorizer
    metadata: MetadataStore
    sessions: FetchSessions
    current: CurrentConfig
    denied: Denied
    """Called with each denial that a client learns of."""
    audit_log: AuditLog | None = None
    """Called with each used permission, if there is an audit log."""


class Requester:
    """One request, as far as it is to be judged."""

    __slots__ = ("api", "host", "principal", "request", "services", "version")

    def __init__(self, services: AuthorizationServices, request: Request) -> None:
        self.services = services
        self.request = request
        self.api: Api = request.api
        self.version = request.version
        self.principal = request.principal
        self.host = request.client_host.removeprefix("/")

    @property
    def owner(self) -> Owner:
        """Whose the fetch sessions of this one are."""
        return self.request.principal, self.request.client_host

    @property
    def snapshot(self) -> Snapshot:
        """The metadata as they are."""
        return self.services.metadata.snapshot()

    def may(
        self, operation: AclOperation, resource_type: AclResourceType, name: str, *, quietly: bool = False
    ) -> bool:
        """Return whether this one may do that; quietly, where a denial only leaves something out."""
        allowed = self.services.authorizer.allows(self.principal, self.host, operation, resource_type, name)
        if quietly:
            return allowed
        audit_log = self.services.audit_log
        if audit_log is not None:
            resource = f"{resource_type.name}:{name}"
            audit_log.used(
                self.principal, self.host, self.api.name, operation.name, resource, allowed=allowed
            )
        if not allowed:
            self.services.denied(self, operation, resource_type, name)
        return allowed

    def may_cluster(self, operation: AclOperation, *, quietly: bool = False) -> bool:
        """Return whether this one may do that to the cluster."""
        return self.may(operation, AclResourceType.CLUSTER, CLUSTER_NAME, quietly=quietly)

    def may_some(self, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Return whether there may be a resource that this one may do that to."""
        return self.services.authorizer.allows_some(self.principal, self.host, operation, resource_type)

    def may_describe(self, topic: str) -> bool:
        """Return whether the requester may describe the topic."""
        return self.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic, quietly=True)

    def may_describe_transaction(self, transactional_id: str) -> bool:
        """Return whether the requester may describe the transactional id."""
        kind = AclResourceType.TRANSACTIONAL_ID
        return self.may(AclOperation.DESCRIBE, kind, transactional_id, quietly=True)

    def may_create(self, topic: str) -> bool:
        """Return whether a topic of that name may be made for this one."""
        return self.may_cluster(AclOperation.CREATE, quietly=True) or self.may(
            AclOperation.CREATE, AclResourceType.TOPIC, topic
        )

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with this id, None if there is none."""
        found = self.snapshot.topics_by_id.get(topic_id)
        return None if found is None else found.name

    def operations(self, resource_type: AclResourceType, name: str) -> int:
        """Return what this one may do to the resource, a bit for each operation."""
        return bits(
            each for each in SUPPORTED[resource_type] if self.may(each, resource_type, name, quietly=True)
        )


def bits(operations: Iterable[AclOperation]) -> int:
    """Return the number in which bit `n` is the operation with the code `n`."""
    return sum(1 << operation for operation in operations)
