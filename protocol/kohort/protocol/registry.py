"""Every API of kohort, by its key."""

from collections.abc import Iterable
from importlib import import_module

from kohort.protocol import headers
from kohort.protocol.schema import Message
from kohort.protocol.versions import Versions


class Api:
    """One API: its key, name, versions, and the classes of request and response."""

    __slots__ = (
        "api_key",
        "flexible_from",
        "flexible_versions",
        "known_versions",
        "name",
        "request",
        "response",
        "tagged_answer_versions",
        "versions",
    )

    def __init__(self, request: type[Message], response: type[Message]) -> None:
        declared = request.declaration()
        assert declared.versions == response.declaration().versions, request
        self.api_key = declared.api_key
        self.name = declared.name.removesuffix("Request")
        self.versions: Versions = declared.versions
        self.flexible_from = declared.flexible.lowest if declared.flexible.highest >= 0 else None
        self.request = request
        self.response = response
        # For lookups at every request: a set takes a sixth of the time of a method.
        self.known_versions = frozenset(range(self.versions.lowest, self.versions.highest + 1))
        self.flexible_versions = frozenset(filter(self.is_flexible, self.known_versions))
        self.tagged_answer_versions = frozenset(filter(self.response_header_version, self.known_versions))

    def is_flexible(self, version: int) -> bool:
        """Return whether `version` has compact lengths and tagged fields."""
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        """Return the version of the header before a request."""
        return headers.request_header_version(is_flexible=self.is_flexible(version))

    def response_header_version(self, version: int) -> int:
        """Return the version of the header before a response."""
        return headers.response_header_version(self.api_key, is_flexible=self.is_flexible(version))

    def __repr__(self) -> str:
        return f"<Api {self.name} ({self.api_key}) {self.versions}>"


class LazyApi(Api):
    """An API whose messages are imported when they are first used, because few brokers use them."""

    __slots__ = ("_module",)

    def __init__(self, api_key: int, name: str, versions: str, module: str = "") -> None:
        self._module = module
        self.api_key = api_key
        self.name = name
        self.versions = Versions.parse(versions)
        self.flexible_from = 0
        self.known_versions = frozenset(range(self.versions.lowest, self.versions.highest + 1))
        self.flexible_versions = self.known_versions
        self.tagged_answer_versions = self.known_versions

    def __getattr__(self, attribute: str) -> type[Message]:
        """Import the classes of request and response, and return the one that `attribute` names."""
        if attribute not in ("request", "response"):
            raise AttributeError(attribute)
        self.request, self.response = _messages(self.name, self._module)
        return self.request if attribute == "request" else self.response


def _messages(name: str, module: str = "") -> tuple[type[Message], type[Message]]:
    """Return the classes of an API's request and response. The default module has the API's name."""
    if not module:
        words = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
        module = f"kohort.protocol.messages.{words[1:]}"
    found = import_module(module)
    return getattr(found, f"{name}Request"), getattr(found, f"{name}Response")


def declared(names: Iterable[str]) -> dict[int, Api]:
    """Return the APIs of these names by key, sorted."""
    found = (Api(*_messages(each)) for each in names)
    return {each.api_key: each for each in sorted(found, key=lambda each: each.api_key)}


IMPORTED_AT_START = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeConfigs",
    "AlterConfigs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "CreatePartitions",
    "DeleteGroups",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "OffsetDelete",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "DescribeCluster",
    "DescribeProducers",
    "UnregisterBroker",
    "DescribeTransactions",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ListConfigResources",
    "DescribeTopicPartitions",
)
"""The APIs whose messages a broker imports at its start."""

CLIENT_ONLY = ("UpdateFeatures",)
"""APIs that kohort sends to Apache Kafka, but that its own broker does not serve."""

IMPORTED_WHEN_USED = (
    LazyApi(71, "GetTelemetrySubscriptions", "0"),
    LazyApi(72, "PushTelemetry", "0"),
    LazyApi(76, "ShareGroupHeartbeat", "1"),
    LazyApi(77, "ShareGroupDescribe", "1"),
    LazyApi(78, "ShareFetch", "1-2"),
    LazyApi(79, "ShareAcknowledge", "1-2"),
    LazyApi(83, "InitializeShareGroupState", "0"),
    LazyApi(84, "ReadShareGroupState", "0"),
    LazyApi(85, "WriteShareGroupState", "0-1"),
    LazyApi(86, "DeleteShareGroupState", "0"),
    LazyApi(87, "ReadShareGroupStateSummary", "0-1"),
    LazyApi(88, "StreamsGroupHeartbeat", "0-1"),
    LazyApi(89, "StreamsGroupDescribe", "0-1"),
    LazyApi(90, "DescribeShareGroupOffsets", "0-1"),
    LazyApi(91, "AlterShareGroupOffsets", "0"),
    LazyApi(92, "DeleteShareGroupOffsets", "0"),
)
"""The APIs of clients' metrics, share groups and streams groups."""

API_NAMES = frozenset((*IMPORTED_AT_START, *CLIENT_ONLY, *(each.name for each in IMPORTED_WHEN_USED)))
"""The names of all APIs with messages."""

APIS: dict[int, Api] = dict(
    sorted({**declared(IMPORTED_AT_START), **{each.api_key: each for each in IMPORTED_WHEN_USED}}.items())
)
"""Every API of the broker by its key, sorted."""

READABLE_OFFSETS_KEY = 30_001
BROKER_PAGE_KEY = 30_002
_OWN = "kohort.protocol.between_brokers"
BETWEEN_BROKERS: dict[int, Api] = {
    each.api_key: each
    for each in (
        LazyApi(READABLE_OFFSETS_KEY, "ReadableOffsets", "0", _OWN),
        LazyApi(BROKER_PAGE_KEY, "BrokerPage", "0", _OWN),
    )
}
"""The APIs between kohort's brokers by key. ApiVersions does not list them."""

BY_NAME: dict[str, Api] = {api.name: api for api in (*APIS.values(), *BETWEEN_BROKERS.values())}
"""Each of these APIs by its name, such as `OffsetCommit`."""


def api_of(api_key: int) -> Api | None:
    """Return the API with this key, of clients or between brokers."""
    return APIS.get(api_key) or BETWEEN_BROKERS.get(api_key)
