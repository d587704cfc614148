"""The registry against the facts of Apache Kafka 4.4."""

import subprocess
import sys
from pkgutil import iter_modules

import pytest

from kohort.protocol import messages
from kohort.protocol.registry import APIS, BETWEEN_BROKERS, BY_NAME, CLIENT_ONLY, EVERY_API, Api

# Key, name, stable versions, and the first flexible one. InitProducerId 6 is unstable in Kafka 4.4.
KAFKA_4_4 = """
 0 Produce                 3-13  9
 1 Fetch                   4-18 12
 2 ListOffsets             1-11  6
 3 Metadata                0-13  9
 8 OffsetCommit            2-10  8
 9 OffsetFetch             1-10  6
10 FindCoordinator         0-6   3
11 JoinGroup               0-9   6
12 Heartbeat               0-4   4
13 LeaveGroup              0-5   4
14 SyncGroup               0-5   4
15 DescribeGroups          0-6   5
16 ListGroups              0-5   3
17 SaslHandshake           0-1   none
18 ApiVersions             0-5   3
19 CreateTopics            2-7   5
20 DeleteTopics            1-6   4
21 DeleteRecords           0-2   2
22 InitProducerId          0-5   2
23 OffsetForLeaderEpoch    2-4   4
24 AddPartitionsToTxn      0-5   3
25 AddOffsetsToTxn         0-4   3
26 EndTxn                  0-5   3
27 WriteTxnMarkers         1-2   1
28 TxnOffsetCommit         0-6   3
29 DescribeAcls            1-3   2
30 CreateAcls              1-3   2
31 DeleteAcls              1-3   2
32 DescribeConfigs         1-4   4
33 AlterConfigs            0-2   2
35 DescribeLogDirs         1-5   2
36 SaslAuthenticate        0-2   2
37 CreatePartitions        0-3   2
42 DeleteGroups            0-3   2
43 ElectLeaders            0-2   2
44 IncrementalAlterConfigs 0-1   1
45 AlterPartitionReassignments 0-1 0
46 ListPartitionReassignments  0   0
47 OffsetDelete            0     none
48 DescribeClientQuotas    0-1   1
49 AlterClientQuotas       0-1   1
50 DescribeUserScramCredentials 0 0
51 AlterUserScramCredentials 0  0
57 UpdateFeatures          0-2   0
60 DescribeCluster         0-2   0
61 DescribeProducers       0     0
64 UnregisterBroker        0     0
65 DescribeTransactions    0     0
66 ListTransactions        0-2   0
68 ConsumerGroupHeartbeat  0-1   0
69 ConsumerGroupDescribe   0-1   0
71 GetTelemetrySubscriptions 0   0
72 PushTelemetry           0     0
74 ListConfigResources     0-1   0
75 DescribeTopicPartitions 0     0
76 ShareGroupHeartbeat     1     0
77 ShareGroupDescribe      1     0
78 ShareFetch              1-2   0
79 ShareAcknowledge        1-2   0
83 InitializeShareGroupState 0   0
84 ReadShareGroupState     0     0
85 WriteShareGroupState    0-1   0
86 DeleteShareGroupState   0     0
87 ReadShareGroupStateSummary 0-1 0
88 StreamsGroupHeartbeat   0-1   0
89 StreamsGroupDescribe    0-1   0
90 DescribeShareGroupOffsets 0-1 0
91 AlterShareGroupOffsets  0     0
92 DeleteShareGroupOffsets 0     0
"""
OFFSET_DELETE = "kohort.protocol.messages.offset_delete"
ROWS = [tuple(line.split()) for line in KAFKA_4_4.strip().splitlines()]


@pytest.mark.parametrize("key, name, versions, flexible_from", ROWS, ids=[row[1] for row in ROWS])
def test_an_api_has_kafkas_versions(key: str, name: str, versions: str, flexible_from: str) -> None:
    api = EVERY_API[int(key)]
    assert (api.name, str(api.versions), str(api.flexible_from).lower()) == (name, versions, flexible_from)


def test_no_api_is_missing_from_the_table() -> None:
    assert [str(key) for key in EVERY_API] == [row[0] for row in ROWS]


@pytest.mark.parametrize("api", EVERY_API.values(), ids=[api.name for api in EVERY_API.values()])
def test_request_and_response_belong_together(api: Api) -> None:
    request, response = api.request.declaration(), api.response.declaration()
    assert (request.name, response.name) == (f"{api.name}Request", f"{api.name}Response")
    assert (request.api_key, request.versions, request.flexible) == (
        response.api_key,
        response.versions,
        response.flexible,
    )
    assert (api in CLIENT_ONLY) != (api.name in BY_NAME)


@pytest.mark.parametrize("api", [*EVERY_API.values(), *BETWEEN_BROKERS.values()], ids=repr)
def test_an_api_is_what_its_messages_declare(api: Api) -> None:
    declared = api.request.declaration()
    assert (api.api_key, api.versions) == (declared.api_key, declared.versions)
    assert api.flexible_versions == {each for each in api.known_versions if each in declared.flexible}
    with pytest.raises(AttributeError):
        api.requests  # noqa: B018  # There is no such thing.


def test_messages_are_imported_when_they_are_first_used() -> None:
    asked = f"""
import sys
from kohort.protocol.registry import APIS
before = "{OFFSET_DELETE}" in sys.modules
APIS[47].response
print(before, "{OFFSET_DELETE}" in sys.modules)
"""
    command = [sys.executable, "-c", asked]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "False True\n"


def test_an_api_knows_its_flexible_versions() -> None:
    assert [APIS[12].is_flexible(version) for version in (3, 4)] == [False, True]
    assert not APIS[47].is_flexible(0)


def test_every_module_of_messages_is_an_apis() -> None:
    modules = {each.name for each in iter_modules(messages.__path__) if not each.name.startswith("test_")}
    assert modules == {EVERY_API[key].request.__module__.rpartition(".")[2] for key in EVERY_API}
