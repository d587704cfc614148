"""Fetch: record batches from where a reader stands, at once or when there are enough of them.

Every reader is taken for a consumer: with one replica nobody follows, so the replica's fields mean
nothing. Source: KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages.
"""

from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.data.fetch_reading import read_targets, refused
from kohort.broker.handlers.data.fetch_wait import FetchWait, answer
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError
from kohort.protocol.messages import FetchRequest, FetchResponse


def handle(data: Data, message: FetchRequest, request: Request) -> FetchResponse | None:
    """Return the answer, or None while the reader waits for more."""
    now_ms = data.clock.now_ms()
    try:
        context = data.fetch_sessions.begin(message, request.version, now_ms)
    except ApiError as error:
        data.requests.request_failed(error.code)
        return refused(error.code)
    max_bytes = min(message.max_bytes, data.current.config.fetch_max_bytes)
    min_bytes = min(message.min_bytes, max_bytes)
    reading = read_targets(context, data.partitions, max_bytes)
    if reading.must_answer or reading.size_bytes >= min_bytes or message.max_wait_ms <= 0:
        return answer(data, message, context, reading)
    wait = FetchWait(
        data, request, message, context, reading=reading, min_bytes=min_bytes, max_bytes=max_bytes
    )
    wait.begin(now_ms)
    return None
