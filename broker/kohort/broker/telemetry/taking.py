"""Answers clients that ask what to send, and that send it. Pure: time and ids come from outside.

Source: org.apache.kafka.server.ClientMetricsManager, org.apache.kafka.server.metrics.ClientMetricsInstance.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from kohort.broker.telemetry.otlp import OtlpError, Resource, TooManyFields, read_metrics
from kohort.broker.telemetry.reports import SERIES_PER_CLIENT_MAX, Report, Reports
from kohort.broker.telemetry.subscriptions import Requester, Subscription, Wanted, wanted_of
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.records.compressed_framing import DecompressedSizeExceeded
from kohort.protocol.records.compression import decompress
from kohort.protocol.records.header import Compression
from kohort.protocol.schema import ZERO_UUID

INSTANCES_MAX = 16_384
"""Clients whose intervals are watched; those that asked longest ago make room. As in Kafka."""
RESERVED = frozenset((ZERO_UUID, UUID(int=1)))
ASKS_AGAIN = frozenset((ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE))
"""Errors after which a client asks at once what to send."""

Configs = Mapping[str, Mapping[str, str]]
"""The settings of each `client-metrics` resource by its name."""


class Push(NamedTuple):
    """What a client sends."""

    client_instance_id: UUID
    subscription_id: int
    is_terminating: bool
    compression_type: int
    metrics: bytes


class Instance:
    """A client: what it is asked for, and when it asked and sent last."""

    __slots__ = (
        "has_asked",
        "is_terminating",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "version",
        "wanted",
    )

    def __init__(self, wanted: Wanted, version: int) -> None:
        self.wanted = wanted
        self.version = version
        self.last_get_ms = 0
        self.last_push_ms = 0
        self.has_asked = False
        """Since its last push."""
        self.is_terminating = False
        self.last_error = ErrorCode.NONE


class ClientMetrics:
    """What clients are asked for, and what they have sent. The loop's thread only."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.reports = Reports()
        self.pushes = 0
        self.refusals: dict[ErrorCode, int] = {}
        self._subscriptions: tuple[Subscription, ...] = ()
        self._version = 0
        self._instances: OrderedDict[UUID, Instance] = OrderedDict()

    def configure(self, configs: Configs) -> None:
        """Ask by these settings from now on."""
        self._subscriptions = tuple(Subscription(each) for each in configs.values())
        self._version += 1

    def ask(self, instance_id: UUID, requester: Requester) -> tuple[ErrorCode, Wanted]:
        """Return what the client is to send. A client that asks too soon is refused."""
        instance, now_ms = self._instance(instance_id, requester), self.now_ms()
        last_ms = max(instance.last_get_ms, instance.last_push_ms)
        if now_ms - last_ms < instance.wanted.interval_ms and instance.last_error not in ASKS_AGAIN:
            return self._refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED), instance.wanted
        instance.last_get_ms = now_ms
        instance.has_asked = True
        instance.last_error = ErrorCode.NONE
        return ErrorCode.NONE, instance.wanted

    def push(self, push: Push, requester: Requester, bytes_max: int) -> ErrorCode:
        """Take what a client sends, and return the error, or NONE."""
        if push.client_instance_id in RESERVED:
            return self._refused(ErrorCode.INVALID_REQUEST)
        if push.client_instance_id not in self._instances:  # It is to ask first what is wanted of it.
            return self._refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        instance, now_ms = self._instance(push.client_instance_id, requester), self.now_ms()
        error = _refusal(push, instance, now_ms, bytes_max)
        instance.is_terminating = push.is_terminating
        if error is ErrorCode.NONE and push.metrics and instance.wanted.metrics:
            error = self._take(push, instance, requester, now_ms, bytes_max)
        if push.is_terminating:
            self.reports.end(push.client_instance_id)
        instance.last_error = error
        return error if error is ErrorCode.NONE else self._refused(error)

    def _take(
        self, push: Push, instance: Instance, requester: Requester, now_ms: int, bytes_max: int
    ) -> ErrorCode:
        try:
            data = decompress(Compression(push.compression_type), push.metrics, bytes_max)
            resources = read_metrics(data, 2 * SERIES_PER_CLIENT_MAX)
        except (DecompressedSizeExceeded, TooManyFields):  # After INVALID_RECORD a client sends no more.
            return ErrorCode.TELEMETRY_TOO_LARGE
        except (WireError, OtlpError):
            return ErrorCode.INVALID_RECORD
        self.pushes += 1
        software = f"{requester.client_software_name} {requester.client_software_version}"
        about = Report(requester.client_id, requester.client_source_address, software.strip())
        interval_ms = instance.wanted.interval_ms
        wanted = [_wanted(each, instance.wanted) for each in resources]
        self.reports.take(push.client_instance_id, about, wanted, now_ms, interval_ms)
        return ErrorCode.NONE

    def _instance(self, instance_id: UUID, requester: Requester) -> Instance:
        instance = self._instances.get(instance_id)
        if instance is None or instance.version != self._version:
            wanted = wanted_of(self._subscriptions, requester)
            instance = self._instances[instance_id] = Instance(wanted, self._version)
            if len(self._instances) > INSTANCES_MAX:
                self._instances.popitem(last=False)
        self._instances.move_to_end(instance_id)
        return instance

    def _refused(self, error: ErrorCode) -> ErrorCode:
        self.refusals[error] = self.refusals.get(error, 0) + 1
        return error


def _wanted(resource: Resource, wanted: Wanted) -> Resource:
    """Return the resource with those of its numbers that its client was asked for."""
    return resource._replace(points=tuple(each for each in resource.points if wanted.asks_for(each.name)))


def _refusal(push: Push, instance: Instance, now_ms: int, bytes_max: int) -> ErrorCode:
    """Return why the push is refused, or NONE; a push that is not too soon is noted."""
    if instance.is_terminating:
        return ErrorCode.INVALID_REQUEST
    # A push may follow the question at once: clients begin at a random time within their interval.
    if instance.has_asked or now_ms - instance.last_push_ms >= instance.wanted.interval_ms:
        instance.last_push_ms = now_ms
        instance.has_asked = False
    elif not push.is_terminating:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if push.subscription_id != instance.wanted.subscription_id(push.client_instance_id):
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if push.compression_type not in tuple(Compression):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.TELEMETRY_TOO_LARGE if len(push.metrics) > bytes_max else ErrorCode.NONE
