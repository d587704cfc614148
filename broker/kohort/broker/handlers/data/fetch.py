"""Fetch: record batches from the reader's offset, at once or when there are enough of them.

Followers read the records on this broker's disk, consumers the committed ones.
Source: KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages.
"""

from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.data.fetch_reading import read_targets, refused
from kohort.broker.handlers.data.fetch_wait import FetchWait, answer
from kohort.broker.handlers.data.follower_targets import targets_to_read
from kohort.broker.handlers.data.reader import reader_of
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError
from kohort.protocol.messages.fetch import FetchRequest, FetchResponse


def handle(data: Data, message: FetchRequest, request: Request) -> FetchResponse | None:
    """Return the answer, or None while the reader waits for more."""
    now_ms = data.clock.now_ms()
    try:
        owner = (request.principal, request.client_host)
        context = data.fetch_sessions.begin(message, request.version, now_ms, owner)
    except ApiError as error:
        data.requests.request_failed(error.code)
        return refused(error.code)
    max_bytes = min(message.max_bytes, data.current.config.fetch_max_bytes)
    min_bytes = min(message.min_bytes, max_bytes)
    reader = reader_of(data, message, request.version)
    targets = targets_to_read(context, reader, now_ms) if reader.is_follower else None
    reading = read_targets(context, data.partitions, max_bytes, reader, targets)
    if reading.must_answer or reading.size_bytes >= min_bytes or message.max_wait_ms <= 0:
        return answer(data, message, context, reading, request)
    wait = FetchWait(
        data,
        request,
        message,
        context,
        reading=reading,
        reader=reader.after_arrival(),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
    )
    wait.begin(now_ms)
    return None
