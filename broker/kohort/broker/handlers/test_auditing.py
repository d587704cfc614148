"""The audit log of requests: each change has a line, and refused ones have a limited number."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kohort.broker.audit.audit_log import REFUSALS_PER_SECOND_MAX, TEXT_MAX, AuditLog
from kohort.broker.handlers.auditing import UNAUDITED_KEYS, Auditing
from kohort.broker.runtime.clock import ManualClock
from kohort.broker.transport.request import ReceivedRequest
from kohort.protocol.between_brokers import BrokerPageRequest, BrokerPageResponse
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message
from tests.messages import message_of

MANY = 3 * REFUSALS_PER_SECOND_MAX
PAGE = BrokerPageResponse(error_code=ErrorCode.NONE, status=200)


def lines_of(message: Message, answer: Message, times: int = 1) -> list[dict[str, Any]]:
    """Return the lines of a request that is made so often within a second, and answered so."""
    lines: list[dict[str, Any]] = []
    audit_log = AuditLog(lambda line: lines.append(json.loads(line)), ManualClock())
    dispatch = SimpleNamespace(handler_of=lambda _: lambda *_: answer)
    api = BY_NAME[type(message).__name__.removesuffix("Request")]
    connection = SimpleNamespace(principal="User:bob", client_host="/10.0.0.1")
    request = ReceivedRequest(cast(Any, connection), api, api.versions.highest, 1, "app")
    handle = Auditing(cast(Any, dispatch), audit_log).handler_of(api.api_key)
    for _ in range(times):
        assert handle(message, request) is answer
    return lines


def deleted(*codes: ErrorCode) -> DeleteTopicsResponse:
    return message_of(
        DeleteTopicsResponse,
        responses=tuple(message_of(DeletableTopicResult, name="t", error_code=each) for each in codes),
    )


@pytest.mark.parametrize(
    "codes",
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED,),
        (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (),
    ],
)
def test_failed_changes_do_not_rotate_the_file(codes: tuple[ErrorCode, ...]) -> None:
    assert len(lines_of(message_of(DeleteTopicsRequest), deleted(*codes), MANY)) == REFUSALS_PER_SECOND_MAX


@pytest.mark.parametrize("codes", [(ErrorCode.NONE,), (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE)])
def test_each_change_is_logged(codes: tuple[ErrorCode, ...]) -> None:
    lines = lines_of(message_of(DeleteTopicsRequest), deleted(*codes), MANY)
    assert len(lines) == MANY
    assert lines[-1]["allowed"] is (len(codes) == 1)
    assert len(lines[-1]["errors"]) == len(codes) - 1


def test_page_requests_of_other_brokers_are_not_changes() -> None:
    assert lines_of(BrokerPageRequest(path="/api/v1/live/groups"), PAGE, MANY) == []
    [line] = lines_of(BrokerPageRequest(path="/api/v1/live/write", method="POST", body=b"x" * 10**6), PAGE)
    assert line["request"]["method"] == "POST"
    assert len(line["request"]["body"]) < TEXT_MAX + 20


def test_a_line_with_many_parts_is_shortened() -> None:
    topics = tuple(message_of(CreatableTopic, name=f"t{each}") for each in range(10_000))
    [line] = lines_of(message_of(CreateTopicsRequest, topics=topics), message_of(CreateTopicsResponse))
    assert line["request"]["topics"][-1] == "... 10000 in all"


def test_exactly_the_changing_requests_are_logged() -> None:
    told = {name for name, api in BY_NAME.items() if api.api_key not in UNAUDITED_KEYS}
    assert told == {
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterPartitionReassignments",
        "AlterShareGroupOffsets",
        "AlterUserScramCredentials",
        "BrokerPage",
        "CreateAcls",
        "CreatePartitions",
        "CreateTopics",
        "DeleteAcls",
        "DeleteGroups",
        "DeleteRecords",
        "DeleteShareGroupOffsets",
        "DeleteTopics",
        "ElectLeaders",
        "IncrementalAlterConfigs",
        "OffsetDelete",
        "UnregisterBroker",
    }
