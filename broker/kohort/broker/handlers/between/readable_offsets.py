"""ReadableOffsets: the unread part of partitions led here, for the groups' coordinators."""

from kohort.broker.handlers.between.family import Between
from kohort.broker.lag.remote_ends import positions_of, readable_offsets_response
from kohort.broker.transport.request import Request
from kohort.protocol.between_brokers import ReadableOffsetsRequest, ReadableOffsetsResponse


async def handle(
    between: Between, message: ReadableOffsetsRequest, request: Request
) -> ReadableOffsetsResponse:
    """Return the ends, and the first record from each offset on. Reads the disk, in a thread."""
    positions = list(positions_of(message))
    await between.ends.open((each.topic, each.partition) for each in positions)
    return readable_offsets_response(message, await between.ends.found(positions))
