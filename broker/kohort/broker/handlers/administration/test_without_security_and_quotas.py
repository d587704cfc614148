"""ACLs, reassignments and quotas on a broker that has none: as Apache Kafka 4.3.1 was seen to answer."""

from pathlib import Path

import pytest

from kohort.broker.handlers.administration.test_admin_support import AdminWorld, creatable
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOperation,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kohort.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kohort.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kohort.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kohort.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kohort.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopic,
)
from tests.messages import message_of


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_are_disabled_without_an_authorizer(tmp_path: Path, version: int) -> None:
    world = await AdminWorld(tmp_path).start()
    described = await world.ask(message_of(DescribeAclsRequest), DescribeAclsResponse, version)
    assert (described.error_code, described.error_message) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
    )
    creations = CreateAclsRequest(creations=(message_of(AclCreation),) * 2)
    created = await world.ask(creations, CreateAclsResponse, version)
    assert [each.error_code for each in created.results] == [54, 54]
    filters = DeleteAclsRequest(filters=(message_of(DeleteAclsFilter),) * 3)
    deleted = await world.ask(filters, DeleteAclsResponse, version)
    assert [each.error_code for each in deleted.filter_results] == [54, 54, 54]
    assert deleted.filter_results[0].error_message == "No Authorizer is configured."


@pytest.mark.parametrize(
    "place, replicas, code, message",
    [
        (("t", 0), (1,), 0, None),
        (("t", 0), None, 85, None),
        (("t", 0), (2,), 39, "broker 2, but no such broker is registered."),
        (("t", 0), (1, 2), 39, "broker 2, but no such broker is registered."),
        (("t", 0), (1, 1), 39, "the broker 1 more than once."),
        (("t", 0), (), 39, "an empty replica list."),
        (("t", 7), (1,), 3, "Unable to find partition t:7."),
        (("t", -1), None, 3, "Unable to find partition t:-1."),
        (("nope", 0), None, 3, "Unable to find a topic named nope."),
    ],
)
async def test_a_partition_can_only_be_where_it_is(
    tmp_path: Path, place: tuple[str, int], replicas: tuple[int, ...] | None, code: int, message: str | None
) -> None:
    topic, index = place
    world = await AdminWorld(tmp_path).start()
    await world.ask(CreateTopicsRequest(topics=(creatable("t", 2),)), CreateTopicsResponse, 7)
    wanted = ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name=topic, partitions=(wanted,)),)
    )
    answer = await world.ask(request, AlterPartitionReassignmentsResponse, 1)
    (result,) = answer.responses[0].partitions
    assert (answer.error_code, result.partition_index, result.error_code) == (0, index, code)
    assert result.error_message == (
        f"The manual partition assignment includes {message}" if code == 39 else message
    )


async def test_no_reassignment_is_listed(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    some = (ListPartitionReassignmentsTopic(name="nope", partition_indexes=(0,)),)
    for topics in (None, some):
        request = ListPartitionReassignmentsRequest(topics=topics)
        answer = await world.ask(request, ListPartitionReassignmentsResponse, 0)
        assert (answer.error_code, answer.topics) == (0, ())


@pytest.mark.parametrize(
    "components, code, message",
    [
        ((), 0, None),
        ((("user", 0, "a"),), 0, None),
        ((("user", 0, "a"), ("client-id", 2, None)), 0, None),
        ((("user", 0, "a"), ("user", 1, None)), 42, "cannot appear more than once"),
        ((("nope", 0, "a"),), 35, "Unsupported entity type nope"),
        ((("", 0, "a"),), 42, "Invalid empty entity type."),
        ((("user", 9, "a"),), 42, "Unknown match type 9"),
        ((("user", 0, None),), 42, "MATCH_TYPE_EXACT, but set match string to null."),
        ((("user", 1, "x"),), 42, "MATCH_TYPE_DEFAULT, but also specified a match string."),
        ((("user", 2, "x"),), 42, "MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ((("user", 2, None), ("ip", 2, None)), 42, "Invalid entity filter component combination."),
    ],
)
async def test_there_are_no_quotas_and_invalid_filters_are_refused(
    tmp_path: Path, components: tuple[tuple[str, int, str | None], ...], code: int, message: str | None
) -> None:
    world = await AdminWorld(tmp_path).start()
    asked = tuple(
        DescribeClientQuotasComponent(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in components
    )
    request = DescribeClientQuotasRequest(components=asked, strict=False)
    answer = await world.ask(request, DescribeClientQuotasResponse, 1)
    assert (answer.error_code, answer.entries) == (code, None if code else ())
    assert message is None or message in (answer.error_message or "")


USER = (("user", "a"),)
RATE = "producer_byte_rate"


@pytest.mark.parametrize(
    "entity, operation, code, message",
    [
        ((), (RATE, 1.0, False), 42, "Invalid empty client quota entity"),
        ((("nope", "a"),), (RATE, 1.0, False), 42, "Unhandled client quota entity type: nope"),
        ((("user", ""),), (RATE, 1.0, False), 42, "Empty user not supported"),
        (USER, ("nope", 1.0, False), 42, "Invalid configuration key nope"),
        (USER, (RATE, -1.0, False), 42, f"Quota {RATE} must be greater than 0"),
        (USER, (RATE, float("nan"), False), 42, f"Quota {RATE} must be greater than 0"),
        (USER, (RATE, 1.5, False), 42, f"{RATE} cannot be a fractional value."),
        ((("ip", "127.0.0.1"),), (RATE, 1.0, False), 42, f"Invalid configuration key {RATE}"),
        ((("ip", "no host"),), ("connection_creation_rate", 1.0, False), 42, "is not a valid IP"),
        ((("ip", "::1"), *USER), ("connection_creation_rate", 1.0, False), 42, "Invalid quota entity comb"),
        (USER, (RATE, 0.0, True), 0, None),
        (USER, ("nope", 0.0, True), 0, None),
        (USER, (RATE, 1024.0, False), 0, None),
        ((("client-id", None),), ("request_percentage", 1.5, False), 0, None),
    ],
)
async def test_a_quota_is_validated_as_kafka_does(
    tmp_path: Path,
    entity: tuple[tuple[str, str | None], ...],
    operation: tuple[str, float, bool],
    code: int,
    message: str | None,
) -> None:
    world = await AdminWorld(tmp_path).start()
    key, value, remove = operation
    entry = AlterClientQuotasEntry(
        entity=tuple(AlterClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity),
        ops=(AlterClientQuotasOperation(key=key, value=value, remove=remove),),
    )
    for validate_only in (False, True):
        request = AlterClientQuotasRequest(entries=(entry,), validate_only=validate_only)
        (result,) = (await world.ask(request, AlterClientQuotasResponse, 1)).entries
        assert result.error_code == code
        assert [(each.entity_type, each.entity_name) for each in result.entity] == list(entity)
        assert message is None or message in (result.error_message or "")
