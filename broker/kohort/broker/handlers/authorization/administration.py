"""Permission checks of requests about settings, access control entries and quotas."""

from typing import Any

import msgspec

from kohort.broker.handlers.authorization.refusals import Parts, made, words
from kohort.broker.handlers.authorization.requester import DENIALS, Requester
from kohort.broker.handlers.authorization.rules import Need, Verdict, without_denied_parts
from kohort.broker.handlers.authorization.topics import cluster_operations
from kohort.broker.metadata import ResourceType
from kohort.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.alter_client_quotas import (
    AlterClientQuotasResponse,
    AlterClientQuotasResult,
    AlterClientQuotasResultEntity,
)
from kohort.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

SETTINGS_OF = {
    ResourceType.TOPIC: AclResourceType.TOPIC,
    ResourceType.GROUP: AclResourceType.GROUP,
    ResourceType.BROKER: AclResourceType.CLUSTER,
    ResourceType.BROKER_LOGGER: AclResourceType.CLUSTER,
    ResourceType.CLIENT_METRICS: AclResourceType.CLUSTER,
}


class Settings:
    """Settings of topics and groups, each by itself; all others are the cluster's."""

    def __init__(self, operation: AclOperation, parts: Parts) -> None:
        self._operation = operation
        self._parts = parts
        self.needs = (
            Need(
                (operation,), AclResourceType.TOPIC, "each topic", ErrorCode.TOPIC_AUTHORIZATION_FAILED.name
            ),
            Need(
                (operation,), AclResourceType.GROUP, "each group", ErrorCode.GROUP_AUTHORIZATION_FAILED.name
            ),
            Need(
                (operation,),
                AclResourceType.CLUSTER,
                "the cluster, for all others",
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name,
            ),
        )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request for the visible or changeable resources."""
        return without_denied_parts(requester, message, self._parts, self._denial)

    def _denial(self, requester: Requester, resource: Any) -> ErrorCode | None:
        kind = SETTINGS_OF.get(resource.resource_type)
        if kind is None:
            return None  # It is answered as if it did not exist.
        name = CLUSTER_NAME if kind is AclResourceType.CLUSTER else resource.resource_name
        return None if requester.may(self._operation, kind, name) else DENIALS[kind]


class AlterClientQuotas:
    """Quotas are the cluster's settings."""

    needs = (
        Need(
            (AclOperation.ALTER_CONFIGS,),
            AclResourceType.CLUSTER,
            "the cluster",
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name,
        ),
    )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request, or its refusal, for each entity."""
        if requester.may_cluster(AclOperation.ALTER_CONFIGS):
            return Verdict(message)
        entries = tuple(
            AlterClientQuotasResult(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                error_message=None,
                entity=tuple(
                    AlterClientQuotasResultEntity(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ),
            )
            for entry in message.entries
        )
        return Verdict(answer=made(AlterClientQuotasResponse, {"entries": entries}))


class AlterUserScramCredentials:
    """Alter permission on the cluster allows setting other users' passwords."""

    needs = (
        Need(
            (AclOperation.ALTER,),
            AclResourceType.CLUSTER,
            "the cluster",
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name,
        ),
    )

    def judge(self, requester: Requester, message: Any) -> Verdict:
        """Return the request, or its refusal, for each user."""
        if requester.may_cluster(AclOperation.ALTER):
            return Verdict(message)
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        names = dict.fromkeys(each.name for each in (*message.deletions, *message.upsertions))
        results = tuple(
            AlterUserScramCredentialsResult(user=name, error_code=code, error_message=words(code))
            for name in names
        )
        return Verdict(answer=made(AlterUserScramCredentialsResponse, {"results": results}))


def with_cluster_operations(requester: Requester, message: Any, answer: Any) -> Any:
    """Return the cluster with the requester's operations on it, if requested."""
    if not message.include_cluster_authorized_operations or answer.error_code != ErrorCode.NONE:
        return answer
    return msgspec.structs.replace(answer, cluster_authorized_operations=cluster_operations(requester))
