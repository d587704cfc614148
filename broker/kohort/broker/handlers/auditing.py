"""A `Dispatch` that logs each change: its user, its resource, and its result.

It comes before the check of permissions, so it also logs refused requests. Secrets are
not logged: passwords, their salts, and settings that are not known to be harmless.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kohort.broker.audit.audit_log import TEXT_MAX, AuditLog, cut
from kohort.broker.config import BrokerConfig
from kohort.broker.config.topic_config import TopicConfig
from kohort.broker.handlers.prepared import Prepared
from kohort.broker.handlers.wrapping import WrappedRequest, ask
from kohort.broker.transport.dispatch import Dispatch, Handle
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import BROKER_PAGE_KEY, BY_NAME

LOOK_ALONE = (
    "ListOffsets Metadata OffsetFetch FindCoordinator DescribeGroups ListGroups ApiVersions DescribeAcls"
    " OffsetForLeaderEpoch DescribeConfigs DescribeLogDirs ListPartitionReassignments DescribeClientQuotas"
    " DescribeUserScramCredentials DescribeCluster DescribeProducers DescribeTransactions ListTransactions"
    " ConsumerGroupDescribe ListConfigResources DescribeTopicPartitions ShareGroupDescribe"
    " ReadShareGroupState ReadShareGroupStateSummary StreamsGroupDescribe DescribeShareGroupOffsets"
    " ReadableOffsets GetTelemetrySubscriptions"
)
"""APIs that change nothing."""
TRAFFIC = (
    "Produce Fetch OffsetCommit JoinGroup Heartbeat LeaveGroup SyncGroup SaslHandshake SaslAuthenticate"
    " InitProducerId AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit"
    " ConsumerGroupHeartbeat StreamsGroupHeartbeat ShareGroupHeartbeat ShareFetch ShareAcknowledge"
    " InitializeShareGroupState WriteShareGroupState DeleteShareGroupState PushTelemetry"
)
"""Frequent requests of clients about records, offsets, groups and transactions."""
UNAUDITED_KEYS = frozenset(BY_NAME[name].api_key for name in (*LOOK_ALONE.split(), *TRAFFIC.split()))
"""Every other API is logged: also an API without a rule here."""
LOOKS = frozenset(("GET", "HEAD"))
"""Pages that one broker asks another for and that change nothing."""

SECRET = frozenset(("salt", "salted_password"))
HIDDEN = "[hidden]"
PARTS_MAX = 200
"""The maximum number of logged parts of a request."""
ERRORS_MAX = 50
NAMES = (
    "name",
    "topic",
    "topic_name",
    "resource_name",
    "group_id",
    "user",
    "partition_index",
    "partition_id",
)


class AuditedRequest(WrappedRequest):
    """A request whose answer is logged."""

    __slots__ = ("_record",)

    def __init__(self, request: Request, record: Callable[[Any], None]) -> None:
        super().__init__(request)
        self._record = record

    def finish(self, answer: Any) -> Any:
        """Return the answer, after it was logged."""
        self._record(answer)
        return answer

    def abandon(self) -> None:
        """Never answer."""
        self._record(None)
        super().abandon()


class Auditing:
    """Forwards requests. The loop's thread only."""

    def __init__(self, inner: Dispatch, audit_log: AuditLog) -> None:
        self._inner = inner
        self._audit_log = audit_log

    def handler_of(self, api_key: int) -> Handle:
        """Return the handler of the API, which logs the request if it changes something."""
        handle = self._inner.handler_of(api_key)
        if api_key in UNAUDITED_KEYS:
            return handle

        def audited(message: Any, request: Request) -> Any:
            if api_key == BROKER_PAGE_KEY and message.method in LOOKS:
                return handle(message, request)  # Nothing is changed; live pages look every two seconds.

            def record(answer: Any) -> None:
                self._record(request, message, answer)

            return ask(handle, message, AuditedRequest(request, record))

        return audited

    def _record(self, request: Request, message: Any, answer: Any) -> None:
        found = answer.message if isinstance(answer, Prepared) else answer
        if answer is not None and 0 not in outcomes(found) and not self._audit_log.may_tell_refusal():
            return
        errors = list(errors_of(found, ""))
        denials = [each for each in errors if each["error"].endswith("AUTHORIZATION_FAILED")]
        self._audit_log.write_event(
            "change",
            principal=request.principal,
            host=request.client_host.removeprefix("/"),
            client_id=request.client_id or "",
            api=request.api.name,
            request=Shown().of(message),
            allowed=not denials,
            errors=errors[:ERRORS_MAX],
            errors_left_out=max(0, len(errors) - ERRORS_MAX),
        )


class Shown:
    """The logged form of a request: its first parts, without secrets."""

    def __init__(self) -> None:
        self._parts_left = PARTS_MAX

    def of(self, value: Any) -> Any:
        """Return what JSON can be made of."""
        self._parts_left -= 1
        if isinstance(value, msgspec.Struct):
            return {
                name: HIDDEN if _is_secret(value, name) else self.of(getattr(value, name))
                for name in value.__struct_fields__
                if name != "timeout_ms"
            }
        if isinstance(value, list | tuple):
            found: list[Any] = []
            for each in value:
                if self._parts_left <= 0:
                    return [*found, f"... {len(value)} in all"]
                found.append(self.of(each))
            return found
        if isinstance(value, int | float | None):
            return value
        return cut(str(value[:TEXT_MAX] if isinstance(value, bytes | memoryview) else value))


def _is_secret(part: Any, field: str) -> bool:
    if field in SECRET:
        return True
    if field != "value" or not hasattr(part, "name"):
        return False
    known = BrokerConfig.DEFINITIONS.get(part.name) or TopicConfig.DEFINITIONS.get(part.name)
    return known is None or known.sensitive


def errors_of(answer: Any, of: str) -> Iterator[dict[str, str]]:
    """Yield the errors of an answer and of its parts."""
    if not isinstance(answer, msgspec.Struct):
        return
    names = [str(found) for each in NAMES if (found := getattr(answer, each, None)) is not None]
    name = "/".join(filter(None, (of, *names)))
    code = getattr(answer, "error_code", 0)
    if code:
        yield {"resource": cut(name), "error": ErrorCode(code).name}
    for field in answer.__struct_fields__:
        value = getattr(answer, field)
        if isinstance(value, tuple | list):
            for each in value:
                yield from errors_of(each, name)


def outcomes(answer: Any) -> Iterator[int]:
    """Yield the result of each innermost part: 0 for a success."""
    if not isinstance(answer, msgspec.Struct):
        return
    parts = [getattr(answer, field) for field in answer.__struct_fields__]
    inner = [
        code for each in parts if isinstance(each, tuple | list) for part in each for code in outcomes(part)
    ]
    code = getattr(answer, "error_code", None)
    yield from inner or ([] if code is None else [code])
