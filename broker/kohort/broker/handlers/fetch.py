"""Fetch: record batches from where a reader stands, at once or when there are enough of them.

Every reader is taken for a consumer: with one replica nobody follows, so the replica's fields mean
nothing. Source: KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages.
"""

from typing import TYPE_CHECKING

from kohort.broker.partitions.fetch_reading import read_targets, refused
from kohort.broker.partitions.fetch_wait import FetchWait, answer
from kohort.protocol.errors import ApiError
from kohort.protocol.messages import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.runtime.request import Request


def handle(broker: "Broker", message: FetchRequest, request: "Request") -> FetchResponse | None:
    """Return the answer, or None while the reader waits for more."""
    now_ms = broker.clock.now_ms()
    try:
        context = broker.fetch_sessions.begin(message, request.version, now_ms)
    except ApiError as error:
        broker.counters.request_failed(error.code)
        return refused(error.code)
    max_bytes = min(message.max_bytes, broker.config.fetch_max_bytes)
    min_bytes = min(message.min_bytes, max_bytes)
    reading = read_targets(context, broker.partitions, max_bytes)
    if reading.must_answer or reading.size_bytes >= min_bytes or message.max_wait_ms <= 0:
        return answer(broker, message, context, reading)
    wait = FetchWait(
        broker, request, message, context, reading=reading, min_bytes=min_bytes, max_bytes=max_bytes
    )
    wait.begin(now_ms)
    return None
