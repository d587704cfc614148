"""Every API can be refused: whatever a request names gets the error, in every version."""

from uuid import UUID

import pytest

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.registry import APIS, Api
from kohort.protocol.schema import Field, Message
from kohort.testing.error_responses import error_response
from kohort.testing.requests import errors_of, has_errors

CODE = ErrorCode.NOT_COORDINATOR
VERSIONS = [
    (api, version)
    for api in APIS.values()
    for version in range(api.versions.lowest, api.versions.highest + 1)
]


def example(kind: type[Message], version: int) -> Message:
    """Return a message in which every list has one element."""
    return kind(
        **{
            each.name: example_of(each, version)
            for each in kind.declaration().fields
            if version in each.versions and each.element is not None
        }
    )


def example_of(field: Field, version: int) -> object:
    if field.struct is not None:
        return (example(field.struct, version),)
    assert field.element is not None
    plain: dict[str, object] = {"string": "name", "uuid": UUID(int=7)}
    return (plain.get(field.element.name.lower(), 7),)


@pytest.mark.parametrize(
    "api, version", [pytest.param(*each, id=f"{each[0].name}-{each[1]}") for each in VERSIONS]
)
def test_every_version_of_every_api_can_be_refused(api: Api, version: int) -> None:
    if not has_errors(api.response):
        pytest.skip("its answer has no place for an error")
    answer = error_response(api.response, example(api.request, version), CODE, version)
    decoded = api.response.decode(answer.encode(version), version)
    assert set(errors_of(decoded)) == {CODE}


def test_a_commit_is_refused_partition_by_partition() -> None:
    asked = OffsetCommitRequest(
        group_id="readers",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=name,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=1, committed_metadata=None
                    )
                    for index in (2, 5)
                ),
            )
            for name in ("orders", "payments")
        ),
    )
    answer = error_response(OffsetCommitResponse, asked, CODE, 8)
    assert isinstance(answer, OffsetCommitResponse)
    assert [
        (topic.name, each.partition_index, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ] == [(name, index, CODE) for name in ("orders", "payments") for index in (2, 5)]
