"""Copies of records in other topics: as large as what they copy, and a little more for headers of ours.

So topics for copies take larger records than the topic itself, and who writes them has no smaller limit.
A record that is as large as its topic allows only because its batch was compressed is compressed again.
"""

import logging

from kohort.client.admin_values import ResourceType
from kohort.client.aio import Admin, Producer
from kohort.client.config import ConsumerOptions, ProducerOptions
from kohort.client.errors import BrokerError, KohortError
from kohort.client.values import AnyRecord, Headers, RecordMetadata
from kohort.protocol.errors import ErrorCode
from kohort.queues.options import producer_options

logger = logging.getLogger(__name__)

OUR_HEADERS_BYTES = 16_384
WHY_LENGTH_MAX = 1_000
_LIMIT = "max.message.bytes"
_LIMIT_MAX = 2**31 - 1


def is_too_large(error: KohortError) -> bool:
    """Return whether a record was refused for its size."""
    return error.code is ErrorCode.MESSAGE_TOO_LARGE


async def configs_for_copies(admin: Admin, topic: str) -> dict[str, str]:
    """Return what a topic has to be configured with that takes copies of this topic's records.

    Nothing where that is not to be known: then it takes what the broker lets in by default.
    """
    try:
        entries = await admin.describe_configs(ResourceType.TOPIC, topic)
    except BrokerError as error:
        logger.warning("how large the records of %s may be is not known: %s", topic, str(error))
        return {}
    limit = entries[_LIMIT].value if _LIMIT in entries else None
    return {} if limit is None else {_LIMIT: str(min(int(limit) + OUR_HEADERS_BYTES, _LIMIT_MAX))}


async def write_copy(
    producer: Producer, options: ConsumerOptions, topic: str, record: AnyRecord, headers: Headers
) -> None:
    """Write a copy of the record; compressed where it is too large as it is. Raises: KohortError."""
    try:
        await (await producer.send(topic, record.value, key=record.key, headers=headers))
    except KohortError as error:
        if not is_too_large(error):
            raise
        await write_compressed(
            producer_options(options), topic, record.value, key=record.key, headers=headers
        )


async def write_compressed(
    options: ProducerOptions,
    topic: str,
    value: bytes | None,
    *,
    key: bytes | None,
    headers: Headers,
    partition: int | None = None,
) -> RecordMetadata:
    """Return where a record was written that is too large as it is.

    That is seldom: it has a producer of its own, with these options. With gzip, which every client can read.
    Raises: KohortError.
    """
    settings: ProducerOptions = {**options, "compression_type": "gzip"}
    async with Producer(**settings) as producer:
        return await (await producer.send(topic, value, key=key, headers=headers, partition=partition))
