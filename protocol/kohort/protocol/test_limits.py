"""No request may have so many elements that a broker is busy with it for long."""

import pytest

from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.errors import WireError
from kohort.protocol.limits import MAX_ITEMS, MAX_NAMED, MAX_PARTITIONS, MAX_REQUEST_BYTES
from kohort.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kohort.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.protocol.registry import APIS, Api
from kohort.protocol.schema import Field, Message
from kohort.protocol.varint import encode_uvarint
from tests.messages import message_of

FILLERS: dict[str, object] = {"string": "t", "int32": 1, "int64": 1, "int8": 1, "bytes": b""}


def arrays_of(api: Api) -> list[Field]:
    version = api.versions.highest
    return [
        each
        for each in api.request.declaration().fields
        if each.wire.name == "array" and version in each.versions and version not in each.tagged
    ]


WITH_ARRAYS = [(api, each) for api in APIS.values() for each in arrays_of(api)]


def filled(api: Api, field: Field, count: int) -> bytes:
    """Return a request of which one array has so many elements, and every other none."""
    if field.struct is not None:
        item: object = message_of(field.struct)
    else:
        assert field.element is not None
        item = FILLERS[field.element.name]
    values: dict[str, object] = {each.name: () for each in arrays_of(api)}
    return message_of(api.request, **values | {field.name: (item,) * count}).encode(api.versions.highest)


@pytest.mark.parametrize("api, field", WITH_ARRAYS, ids=lambda each: getattr(each, "name", None))
def test_an_array_with_too_many_elements_is_refused(api: Api, field: Field) -> None:
    version = api.versions.highest
    most = api.request.declaration().max_items
    assert most in (MAX_ITEMS, MAX_NAMED, MAX_PARTITIONS)
    if field.struct is not None and any(
        each.wire.name == "array" and version in each.versions for each in field.struct.declaration().fields
    ):
        most = MAX_ITEMS
    made = api.request.decode(filled(api, field, most), version)
    assert len(getattr(made, field.name)) == most
    with pytest.raises(
        WireError, match=f"{api.request.__name__} v{version}: more than {most} elements in all"
    ):
        api.request.decode(filled(api, field, most + 1), version)


def test_all_arrays_of_a_request_count_together() -> None:
    partition = OffsetCommitRequestPartition(partition_index=1, committed_offset=2, committed_metadata=None)
    few = OffsetCommitRequestTopic(name="t", partitions=(partition,) * 9)

    def commit(topics: int) -> bytes:
        return message_of(OffsetCommitRequest, topics=(few,) * topics).encode(8)

    most = MAX_PARTITIONS // 10  # below the limit of topics
    assert len(OffsetCommitRequest.decode(commit(most), 8).topics) == most
    with pytest.raises(WireError, match="more than 100000 elements"):
        OffsetCommitRequest.decode(commit(most + 1), 8)


def test_topics_of_several_groups_count_together() -> None:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=())
    half = OffsetFetchRequestGroup(group_id="g", topics=(topic,) * (MAX_ITEMS // 2))
    with pytest.raises(WireError, match="more than 20000 elements"):
        OffsetFetchRequest.decode(message_of(OffsetFetchRequest, groups=(half, half)).encode(9), 9)
    assert OffsetFetchRequest.decode(message_of(OffsetFetchRequest, groups=(half,)).encode(9), 9).groups == (
        half,
    )


def test_tagged_fields_count_too() -> None:
    known = message_of(HeartbeatRequest).encode(4)[:-1]
    HeartbeatRequest.decode(known + encode_uvarint(MAX_ITEMS) + b"\x50\0" * MAX_ITEMS, 4)
    with pytest.raises(WireError, match="more than 20000 elements"):
        HeartbeatRequest.decode(known + encode_uvarint(MAX_ITEMS + 1) + b"\x50\0" * (MAX_ITEMS + 1), 4)


def test_requests_of_large_installations_are_within_the_limits() -> None:
    topics = tuple(f"topic-with-a-name-of-usual-length-{number}" for number in range(10_000))
    request = message_of(DeleteTopicsRequest, topic_names=topics).encode(5)
    assert len(DeleteTopicsRequest.decode(request, 5).topic_names) == 10_000
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=each, committed_offset=each, committed_metadata="x" * 30)
        for each in range(99_000)
    )
    commit = message_of(
        OffsetCommitRequest, topics=(OffsetCommitRequestTopic(name="t", partitions=partitions),)
    )
    encoded = commit.encode(8)
    assert len(encoded) < MAX_REQUEST_BYTES
    assert OffsetCommitRequest.decode(encoded, 8) == commit


def test_as_many_partitions_can_be_created_as_in_kafka() -> None:
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=index, broker_ids=(1, 2, 3, 4, 5))
        for index in range(10_000)
    )
    request = message_of(CreateTopicsRequest, topics=(message_of(CreatableTopic, assignments=assignments),))
    for version in range(2, 8):
        assert CreateTopicsRequest.decode(request.encode(version), version) == request


def test_many_settings_can_be_altered_and_many_topics_requested() -> None:
    config = IncrementalAlterConfigsRequestAlterableConfig(name="retention.ms", config_operation=0, value="1")
    resources = tuple(
        IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=2, resource_name=f"topic-{number}", configs=(config,)
        )
        for number in range(10_000)
    )
    altering = message_of(IncrementalAlterConfigsRequest, resources=resources)
    assert IncrementalAlterConfigsRequest.decode(altering.encode(1), 1) == altering
    asked = message_of(
        MetadataRequest,
        topics=tuple(MetadataRequestTopic(name=f"topic-{number}") for number in range(50_000)),
    )
    assert MetadataRequest.decode(asked.encode(12), 12) == asked


def test_answers_have_no_limit() -> None:
    brokers = (MetadataResponseBroker(node_id=1, host="h", port=1),) * (MAX_PARTITIONS + 1)
    answer = message_of(MetadataResponse, brokers=brokers).encode(8)
    assert len(MetadataResponse.decode(answer, 8).brokers) == MAX_PARTITIONS + 1


def test_a_subscription_is_held_to_the_limit_of_partitions() -> None:
    data = message_of(ConsumerProtocolSubscription, topics=("",) * (MAX_PARTITIONS + 1)).encode(1)
    with pytest.raises(WireError, match="more than 100000 elements"):
        ConsumerProtocolSubscription.decode(data, 1)


def test_null_is_no_element() -> None:
    request: Message = message_of(MetadataRequest, topics=None)
    assert MetadataRequest.decode(request.encode(9), 9) == request
