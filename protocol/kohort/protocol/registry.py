"""Every API of kohort, by its key."""

from importlib import import_module

from kohort.protocol import headers
from kohort.protocol.schema import Message
from kohort.protocol.versions import Versions


class Api:
    """One API: its key, name, versions, and the classes of request and response, imported at first use."""

    __slots__ = (
        "_module",
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
    request: type[Message]
    response: type[Message]

    def __init__(
        self, api_key: int, name: str, versions: str, flexible: str = "0+", module: str = ""
    ) -> None:
        self._module = module
        self.api_key = api_key
        self.name = name
        self.versions = Versions.parse(versions)
        first_flexible = Versions.parse(flexible)
        self.flexible_from = first_flexible.lowest if first_flexible.highest >= 0 else None
        # For lookups at every request: a set takes a sixth of the time of a method.
        self.known_versions = frozenset(range(self.versions.lowest, self.versions.highest + 1))
        self.flexible_versions = frozenset(filter(self.is_flexible, self.known_versions))
        self.tagged_answer_versions = frozenset(filter(self.response_header_version, self.known_versions))

    def __getattr__(self, attribute: str) -> type[Message]:
        """Import the classes of request and response, and return the one that `attribute` names."""
        if attribute not in ("request", "response"):
            raise AttributeError(attribute)
        self.request, self.response = _messages(self.name, self._module)
        return self.request if attribute == "request" else self.response

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


def _messages(name: str, module: str = "") -> tuple[type[Message], type[Message]]:
    """Return the classes of an API's request and response. The default module has the API's name."""
    if not module:
        words = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
        module = f"kohort.protocol.messages.{words[1:]}"
    found = import_module(module)
    return getattr(found, f"{name}Request"), getattr(found, f"{name}Response")


SERVED = (
    Api(0, "Produce", "3-13", "9+"),
    Api(1, "Fetch", "4-18", "12+"),
    Api(2, "ListOffsets", "1-11", "6+"),
    Api(3, "Metadata", "0-13", "9+"),
    Api(8, "OffsetCommit", "2-10", "8+"),
    Api(9, "OffsetFetch", "1-10", "6+"),
    Api(10, "FindCoordinator", "0-6", "3+"),
    Api(11, "JoinGroup", "0-9", "6+"),
    Api(12, "Heartbeat", "0-4", "4+"),
    Api(13, "LeaveGroup", "0-5", "4+"),
    Api(14, "SyncGroup", "0-5", "4+"),
    Api(15, "DescribeGroups", "0-6", "5+"),
    Api(16, "ListGroups", "0-5", "3+"),
    Api(17, "SaslHandshake", "0-1", "none"),
    Api(18, "ApiVersions", "0-5", "3+"),
    Api(19, "CreateTopics", "2-7", "5+"),
    Api(20, "DeleteTopics", "1-6", "4+"),
    Api(21, "DeleteRecords", "0-2", "2+"),
    Api(22, "InitProducerId", "0-5", "2+"),
    Api(23, "OffsetForLeaderEpoch", "2-4", "4+"),
    Api(24, "AddPartitionsToTxn", "0-5", "3+"),
    Api(25, "AddOffsetsToTxn", "0-4", "3+"),
    Api(26, "EndTxn", "0-5", "3+"),
    Api(27, "WriteTxnMarkers", "1-2", "1+"),
    Api(28, "TxnOffsetCommit", "0-6", "3+"),
    Api(29, "DescribeAcls", "1-3", "2+"),
    Api(30, "CreateAcls", "1-3", "2+"),
    Api(31, "DeleteAcls", "1-3", "2+"),
    Api(32, "DescribeConfigs", "1-4", "4+"),
    Api(33, "AlterConfigs", "0-2", "2+"),
    Api(35, "DescribeLogDirs", "1-5", "2+"),
    Api(36, "SaslAuthenticate", "0-2", "2+"),
    Api(37, "CreatePartitions", "0-3", "2+"),
    Api(42, "DeleteGroups", "0-3", "2+"),
    Api(43, "ElectLeaders", "0-2", "2+"),
    Api(44, "IncrementalAlterConfigs", "0-1", "1+"),
    Api(45, "AlterPartitionReassignments", "0-1"),
    Api(46, "ListPartitionReassignments", "0"),
    Api(47, "OffsetDelete", "0", "none"),
    Api(48, "DescribeClientQuotas", "0-1", "1+"),
    Api(49, "AlterClientQuotas", "0-1", "1+"),
    Api(50, "DescribeUserScramCredentials", "0"),
    Api(51, "AlterUserScramCredentials", "0"),
    Api(60, "DescribeCluster", "0-2"),
    Api(61, "DescribeProducers", "0"),
    Api(64, "UnregisterBroker", "0"),
    Api(65, "DescribeTransactions", "0"),
    Api(66, "ListTransactions", "0-2"),
    Api(68, "ConsumerGroupHeartbeat", "0-1"),
    Api(69, "ConsumerGroupDescribe", "0-1"),
    Api(71, "GetTelemetrySubscriptions", "0"),
    Api(72, "PushTelemetry", "0"),
    Api(74, "ListConfigResources", "0-1"),
    Api(75, "DescribeTopicPartitions", "0"),
    Api(76, "ShareGroupHeartbeat", "1"),
    Api(77, "ShareGroupDescribe", "1"),
    Api(78, "ShareFetch", "1-2"),
    Api(79, "ShareAcknowledge", "1-2"),
    Api(83, "InitializeShareGroupState", "0"),
    Api(84, "ReadShareGroupState", "0"),
    Api(85, "WriteShareGroupState", "0-1"),
    Api(86, "DeleteShareGroupState", "0"),
    Api(87, "ReadShareGroupStateSummary", "0-1"),
    Api(88, "StreamsGroupHeartbeat", "0-1"),
    Api(89, "StreamsGroupDescribe", "0-1"),
    Api(90, "DescribeShareGroupOffsets", "0-1"),
    Api(91, "AlterShareGroupOffsets", "0"),
    Api(92, "DeleteShareGroupOffsets", "0"),
)
"""The APIs of the broker, sorted by key, with their versions, and which of these are flexible if not all."""

CLIENT_ONLY = (Api(57, "UpdateFeatures", "0-2"),)
"""APIs that kohort sends to Apache Kafka, but that its own broker does not serve."""

APIS: dict[int, Api] = {each.api_key: each for each in SERVED}
"""Every API of the broker by its key, sorted."""

EVERY_API: dict[int, Api] = dict(sorted({**APIS, **{each.api_key: each for each in CLIENT_ONLY}}.items()))
"""Every API of the broker and of its clients by its key, sorted."""

READABLE_OFFSETS_KEY = 30_001
BROKER_PAGE_KEY = 30_002
_OWN = "kohort.protocol.between_brokers"
BETWEEN_BROKERS: dict[int, Api] = {
    each.api_key: each
    for each in (
        Api(READABLE_OFFSETS_KEY, "ReadableOffsets", "0", module=_OWN),
        Api(BROKER_PAGE_KEY, "BrokerPage", "0", module=_OWN),
    )
}
"""The APIs between kohort's brokers by key. ApiVersions does not list them."""

BY_NAME: dict[str, Api] = {api.name: api for api in (*APIS.values(), *BETWEEN_BROKERS.values())}
"""Each of these APIs by its name, such as `OffsetCommit`."""


def api_of(api_key: int) -> Api | None:
    """Return the API with this key, of clients or between brokers."""
    return APIS.get(api_key) or BETWEEN_BROKERS.get(api_key)
