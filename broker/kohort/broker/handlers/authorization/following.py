"""Installs an authorizer before the handlers."""

import structlog

from kohort.broker.audit.audit_log import AuditLog
from kohort.broker.authorization.authorizer import Authorizer, super_users
from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.authorization.guard import Guard
from kohort.broker.handlers.authorization.requester import AuthorizationServices, Requester
from kohort.broker.handlers.data.fetch_sessions import FetchSessions
from kohort.broker.metadata import MetadataStore
from kohort.broker.metadata.acls import follow_acls
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.transport.dispatch import Dispatch
from kohort.protocol.acls import AclOperation, AclResourceType

log = structlog.get_logger("kohort.authorizer")


def guarded(
    dispatch: Dispatch,
    metadata: MetadataStore,
    sessions: FetchSessions,
    current: CurrentConfig,
    clock: Clock,
    *,
    audit_log: AuditLog | None = None,
) -> Guard:
    """Return a dispatch with an authorizer that follows the entries in the metadata, and writes to
    `audit_log`.

    Without an authorizer everything is allowed: then it is there only for the audit_log.
    """
    config = current.config
    if config.authorizer_class_name:
        authorizer = Authorizer(
            super_users(config.super_users), allows_unmentioned=config.allow_everyone_if_no_acl_found
        )
        follow_acls(metadata, authorizer)
    else:
        authorizer = Authorizer(allows_unmentioned=True)
    throttled = ThrottledLog(log, clock)

    def denied(
        requester: Requester, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> None:
        throttled.warning(
            "not authorized",
            principal=requester.principal,
            host=requester.host,
            operation=operation.name,
            resource=f"{resource_type.name}:{name}",
            api=requester.api.name,
        )

    return Guard(dispatch, AuthorizationServices(authorizer, metadata, sessions, current, denied, audit_log))
