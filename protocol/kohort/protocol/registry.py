"""Every API that kohort speaks, by its key."""

from collections.abc import Iterable
from importlib import import_module

from kohort.protocol import headers
from kohort.protocol.schema import Message
from kohort.protocol.versions import Versions


class Api:
    """One API: its key, name, versions, and the two classes of its messages."""

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
        # For those who ask at every request: sets answer in a sixth of the time that a method takes.
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


class LateApi(Api):
    """An API whose messages are imported when they are first asked for: few brokers are asked for them."""

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
        """Return the class of the request or of the answer, which no attribute has yet."""
        if attribute not in ("request", "response"):
            raise AttributeError(attribute)
        self.request, self.response = _messages(self.name, self._module)
        return self.request if attribute == "request" else self.response


def _messages(name: str, module: str = "") -> tuple[type[Message], type[Message]]:
    """Return the classes of an API's request and response, by default from the module that has its name."""
    if not module:
        words = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
        module = f"kohort.protocol.messages.{words[1:]}"
    found = import_module(module)
    return getattr(found, f"{name}Request"), getattr(found, f"{name}Response")


def declared(names: Iterable[str]) -> dict[int, Api]:
    """Return the APIs of these names by their keys, in the order of the keys."""
    found = (Api(*_messages(each)) for each in names)
    return {each.api_key: each for each in sorted(found, key=lambda each: each.api_key)}


EARLY = (
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
"""The APIs whose messages every broker imports when it starts."""

ASKED_ALONE = ("UpdateFeatures",)
"""What is asked of Apache Kafka, and the broker here does not answer."""

LATE = (
    LateApi(76, "ShareGroupHeartbeat", "1"),
    LateApi(77, "ShareGroupDescribe", "1"),
    LateApi(78, "ShareFetch", "1-2"),
    LateApi(79, "ShareAcknowledge", "1-2"),
    LateApi(83, "InitializeShareGroupState", "0"),
    LateApi(84, "ReadShareGroupState", "0"),
    LateApi(85, "WriteShareGroupState", "0-1"),
    LateApi(86, "DeleteShareGroupState", "0"),
    LateApi(87, "ReadShareGroupStateSummary", "0-1"),
    LateApi(88, "StreamsGroupHeartbeat", "0-1"),
    LateApi(89, "StreamsGroupDescribe", "0-1"),
    LateApi(90, "DescribeShareGroupOffsets", "0-1"),
    LateApi(91, "AlterShareGroupOffsets", "0"),
    LateApi(92, "DeleteShareGroupOffsets", "0"),
)
"""Those of share groups and streams groups."""

NAMES = frozenset((*EARLY, *ASKED_ALONE, *(each.name for each in LATE)))
"""Of every API that there are messages of."""

APIS: dict[int, Api] = {**declared(EARLY), **{each.api_key: each for each in LATE}}
"""Every API of the broker by its key, in the order of the keys."""

READABLE_OFFSETS_KEY = 30_001
BROKER_PAGE_KEY = 30_002
_OWN = "kohort.protocol.between_brokers"
BETWEEN_BROKERS: dict[int, Api] = {
    each.api_key: each
    for each in (
        LateApi(READABLE_OFFSETS_KEY, "ReadableOffsets", "0", _OWN),
        LateApi(BROKER_PAGE_KEY, "BrokerPage", "0", _OWN),
    )
}
"""What kohort's brokers ask each other beside Kafka's APIs, by its key: no client is offered it."""

BY_NAME: dict[str, Api] = {api.name: api for api in (*APIS.values(), *BETWEEN_BROKERS.values())}
"""Each of them by its name, such as `OffsetCommit`."""


def api_of(api_key: int) -> Api | None:
    """Return the API that has this key, whoever asks it."""
    return APIS.get(api_key) or BETWEEN_BROKERS.get(api_key)
