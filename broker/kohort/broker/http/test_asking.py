"""What the broker asks itself for an HTTP client."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from kohort.broker.http import asking
from kohort.broker.http.asking import InHouse, NotAnswered
from kohort.broker.transport.request import Request
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.messages import message_of

ANSWER = message_of(HeartbeatResponse)


@pytest.mark.parametrize("answer", [ANSWER, None])
async def test_who_has_asked_is_forgotten_once_it_is_answered_or_waits_no_more(
    answer: HeartbeatResponse | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 0.01)
    remembered: list[object] = []

    def handle(_message: object, request: Request) -> HeartbeatResponse | None:
        remembered.append(request.connection)
        request.connection.on_close.append(remembered.clear)
        return answer

    dispatch = SimpleNamespace(handler_of=lambda _: handle)
    mailbox = SimpleNamespace(post=lambda function: function())
    ask = InHouse(cast(Any, dispatch), cast(Any, mailbox), cast(Any, None))
    with trio.fail_after(5):
        if answer is not None:
            assert await ask("Heartbeat", 4, message_of(HeartbeatRequest)) is answer
        else:
            with pytest.raises(NotAnswered):
                await ask("Heartbeat", 4, message_of(HeartbeatRequest))
    assert remembered == []
