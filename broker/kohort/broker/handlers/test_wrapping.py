from types import SimpleNamespace
from typing import Any, cast

import pytest

from kohort.broker.handlers.wrapping import WrappedRequest, ask
from kohort.broker.transport.permissions import ALLOW_ALL, DENY_ALL, Permissions
from kohort.broker.transport.request import Origin, ReceivedRequest, Request
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

ANSWER = HeartbeatResponse(throttle_time_ms=0, error_code=0)
QUESTIONS = ("may_describe", "may_describe_transaction", "may_create")


class Connection:
    """Notes what becomes of its requests."""

    client_host, principal = "/10.0.0.1", "User:bob"

    def __init__(self, permissions: Permissions = DENY_ALL) -> None:
        self.permissions = permissions
        self.notes: list[object] = []

    def complete(self, request: ReceivedRequest, message: Message) -> None:
        self.notes.append((request, message))

    def abandon(self, request: ReceivedRequest) -> None:
        self.notes.append(request)

    def close(self) -> None:
        self.notes.append("closed")


def received(connection: Connection) -> ReceivedRequest:
    return ReceivedRequest(cast(Origin, connection), BY_NAME["Heartbeat"], 4, 7, "app")


class Later(WrappedRequest):
    """Adds to the throttle time."""

    def finish(self, answer: Any) -> Any:
        return HeartbeatResponse(throttle_time_ms=answer.throttle_time_ms + 1, error_code=0)


class Stingy(ReceivedRequest):
    def may_have(self, _size_bytes: int) -> bool:
        return False


@pytest.mark.parametrize("permissions", [ALLOW_ALL, DENY_ALL])
def test_a_wrapper_forwards_every_member_of_the_original(permissions: Permissions) -> None:
    connection = Connection(permissions)
    original = received(connection)
    wrapped = WrappedRequest(WrappedRequest(original))
    for name in ("api", "client_host", "client_id", "connection", "correlation_id", "principal", "received"):
        assert getattr(wrapped, name) is getattr(original, name), name
    assert {getattr(wrapped.permissions, each)("x") for each in QUESTIONS} == {permissions is ALLOW_ALL}
    wrapped.respond(ANSWER)
    wrapped.abandon()
    wrapped.hang_up()
    assert connection.notes == [(original, ANSWER), original, "closed"]


def test_a_wrapper_has_no_bytes_where_the_original_has_none() -> None:
    refusing = Stingy(cast(Origin, Connection()), BY_NAME["Fetch"], 4, 7, "app")
    assert not WrappedRequest(refusing).may_have(1)


@pytest.mark.interpreted  # A compiled class leaves that to the type checkers.
def test_a_wrapper_without_a_required_member_cannot_be_created() -> None:
    members = {name: None for name in Request.__abstractmethods__ if name != "permissions"}
    forgetful = type("Forgetful", (Request,), members)
    with pytest.raises(TypeError, match="permissions"):
        forgetful(SimpleNamespace(), BY_NAME["Heartbeat"], 4, 7, "app")


async def test_an_answer_is_finished_once_in_every_way_of_answering() -> None:
    connection = Connection()
    wrapped = Later(Later(received(connection)))

    async def later(message: object, request: Request) -> Message:
        return ANSWER

    def by_respond(message: object, request: Request) -> None:
        request.respond(ANSWER)

    assert ask(lambda message, request: ANSWER, None, wrapped).throttle_time_ms == 1
    assert (await ask(later, None, wrapped)).throttle_time_ms == 1
    assert ask(by_respond, None, wrapped) is None
    assert [cast(Any, each)[1].throttle_time_ms for each in connection.notes] == [2]
