"""Initialize-, Read-, Write-, DeleteShareGroupState, ReadShareGroupStateSummary: other brokers ask for state.

Leaders of partitions and group coordinators do, of the broker that coordinates a share partition.
Source: KafkaApis.handleReadShareGroupStateRequest and its like, KIP-932.
"""

from functools import partial
from typing import Any

from kohort.broker.coordination.share_state_wire import BY_REQUEST
from kohort.broker.group import NO_REQUEST
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.share_state.state import ShareKey
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message


def handle(sharing: ShareServices, message: Any, request: Request) -> Message | None:
    """Ask for each partition; answered when all have answered, and writes are durable."""
    kind = BY_REQUEST[type(message)]
    asked = [
        (ShareKey(message.group_id, topic.topic_id, each.partition), each)
        for topic in message.topics
        for each in topic.partitions
    ]
    if not asked:
        return kind.answer(())
    if not sharing.is_enabled:
        code = ErrorCode.UNSUPPORTED_VERSION
        return kind.answer(
            [(key.topic_id, kind.command(NO_REQUEST, key, each).refused(code)) for key, each in asked]
        )

    def finish(answers: tuple[Message, ...]) -> None:
        topics = (key.topic_id for key, _ in asked)
        request.respond(kind.answer(list(zip(topics, answers, strict=True))))

    gather = Gather(len(asked), finish)
    states = sharing.shares().states
    for position, (key, each) in enumerate(asked):
        states.ask(key, partial(_command, kind.command, key, each), gather.place(position), only_here=True)
    return None


def _command(build: Any, key: ShareKey, each: Message, request_id: int) -> Any:
    return build(request_id, key, each)
