"""The client's errors: few classes, each with `.code` and `.retriable`."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from kohort.client.values import ConsumerRecord, OffsetAndMetadata, TopicPartition
from kohort.protocol.errors import ErrorCode

Item = TypeVar("Item", bound=Hashable)


class KohortError(Exception):
    """The base of everything that the client raises on purpose.

    `code` is Kafka's nearest error code, `retriable` whether the same call may succeed later without
    anything being changed.
    """

    code = ErrorCode.UNKNOWN_SERVER_ERROR

    @property
    def retriable(self) -> bool:
        """Whether the same call may succeed later."""
        return self.code.retriable


class BrokerError(KohortError):
    """A broker answered with an error code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        self.code = _known(code)
        self.text = message if message else _EXPLAINED.get(self.code, "")
        super().__init__(f"{self.code.name}: {self.text}" if self.text else self.code.name)


class ItemsError(BrokerError):
    """A call about several items failed for some: `errors` by item, and `results` of the others.

    Its code and `retriable` are those of the first error.
    """

    def __init__(self, errors: "Mapping[Item, KohortError]", results: "Mapping[Item, object]") -> None:
        self.errors: Mapping[Hashable, KohortError] = dict(errors.items())
        self.results: Mapping[Hashable, object] = dict(results.items())
        texts = (_of_item(item, getattr(error, "text", "") or str(error)) for item, error in errors.items())
        super().__init__(next(iter(errors.values())).code, "; ".join(texts))

    @property
    def retriable(self) -> bool:
        """Whether every failure may pass."""
        return all(each.retriable for each in self.errors.values())


class AuthenticationError(BrokerError):
    """A broker refuses to authenticate this client, or does not support it: that is final."""


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed: a broker's certificate is not trusted, or it refused this client's. Final."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
        self.args = (message,)  # It is the nearest code that Kafka has; without SASL its name would mislead.


class NetworkError(KohortError):
    """No connection could be made, or one broke while an answer was awaited."""

    code = ErrorCode.NETWORK_EXCEPTION


class RequestTimeoutError(KohortError, TimeoutError):
    """An answer did not arrive in time; whether the broker acted is unknown."""

    code = ErrorCode.REQUEST_TIMED_OUT


class DeliveryTimeoutError(RequestTimeoutError):
    """A record was not written within delivery_timeout_ms; `__cause__` is what went wrong last."""


class BufferFullError(RequestTimeoutError):
    """There was no room for a record within max_block_ms."""


class UnsupportedVersionError(KohortError):
    """The broker supports no version of an API that this call needs."""

    code = ErrorCode.UNSUPPORTED_VERSION


class ConfigurationError(KohortError, ValueError):
    """A setting that does not exist, or a value that it can't have."""

    code = ErrorCode.INVALID_CONFIG


class MissingExtraError(KohortError, ImportError):
    """A call needs a package that is not installed; the message names it."""

    code = ErrorCode.INVALID_CONFIG


class ClosedError(KohortError):
    """The client was closed, or not opened yet."""

    code = ErrorCode.INVALID_REQUEST


class WouldBlockError(KohortError):
    """A call that waits for the client's own thread was made in that thread, by a callback."""

    code = ErrorCode.INVALID_REQUEST


class ConcurrentAccessError(KohortError, RuntimeError):
    """A consumer was called while another thread was in a call, or a client in another event loop."""

    code = ErrorCode.INVALID_REQUEST


class SerializationError(KohortError):
    """A serializer or deserializer raised; `__cause__` is what."""

    code = ErrorCode.INVALID_RECORD


class DeserializationError(SerializationError):
    """A deserializer raised: `record` is the record, as bytes; polls raise it until a seek after it."""

    def __init__(self, what: str, record: ConsumerRecord, error: Exception) -> None:
        self.record = record
        super().__init__(
            f"{what}_deserializer failed for the record of {record.topic}-{record.partition} at offset"
            f" {record.offset}: {error!r}. A seek to the offset behind it leaves it out"
        )


class PartitionerError(KohortError):
    """A user's own partitioner chose a partition that does not exist."""

    code = ErrorCode.INVALID_PARTITIONS


class CommitFailedError(KohortError):
    """A commit was refused because the group has moved on; `partitions` may have another owner.

    They are (topic, partition) pairs: all that are known to be lost.
    """

    def __init__(self, code: ErrorCode, message: str, partitions: tuple[tuple[str, int], ...] = ()) -> None:
        self.code = code
        self.partitions = partitions
        super().__init__(message)

    @property
    def retriable(self) -> bool:
        """Never: the member has to join again first."""
        return False


class NotAcquiredError(KohortError):
    """A share consumer acknowledged a record that it has not acquired, or not any more."""

    code = ErrorCode.INVALID_RECORD_STATE


class TransactionStateError(KohortError):
    """A call that is wrong in the state of the producer's transaction, such as a send outside of one."""

    code = ErrorCode.INVALID_TXN_STATE


class TransactionFailedError(KohortError):
    """A part of the transaction failed, see `__cause__`: it can only be aborted. The next may succeed."""

    code = ErrorCode.TRANSACTION_ABORTABLE


class ProducerFencedError(BrokerError):
    """Another producer has this one's transactional id by now: this one will never write again."""


class RebalanceInProgressError(KohortError):
    """A commit met a rebalance, in which its partitions may or may not be kept: poll, and try again."""

    code = ErrorCode.REBALANCE_IN_PROGRESS

    @property
    def retriable(self) -> bool:
        """Always true: the rebalance ends."""
        return True


class WakeupError(KohortError):
    """Another thread has called `wakeup`: the poll ends here, and may be repeated."""

    code = ErrorCode.NONE

    @property
    def retriable(self) -> bool:
        """Always: nothing was lost."""
        return True


class NoOffsetError(KohortError):
    """A partition has no committed offset, or lost it, and auto_offset_reset is "none"."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class LogTruncationError(KohortError):
    """Records already read were truncated by a new leader (KIP-320), and auto_offset_reset is "none".

    `position` is the consumer's position, `divergent` the end of the common records, if
    known: a seek there continues without a gap.
    """

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(
        self, partition: TopicPartition, position: OffsetAndMetadata, divergent: OffsetAndMetadata | None
    ) -> None:
        self.partition = partition
        self.position = position
        self.divergent = divergent
        where = "somewhere before" if divergent is None else f"from offset {divergent.offset} on"
        super().__init__(
            f"partition {partition} was read up to offset {position.offset}, but its new leader has other"
            f" records {where}, and auto_offset_reset is 'none': seek to where you want to go on"
        )


def check(code: int, message: str | None = None) -> None:
    """Return if `code` is NONE. Raises: BrokerError for any other."""
    if code != ErrorCode.NONE:
        raise BrokerError(code, message)


def _of_item(item: object, text: str) -> str:
    """Return the error of an item as text; its name comes first unless the text has it."""
    return text if str(item) in text else f"{str(item)!r}: {text}"


def _known(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:  # A broker newer than this client.
        return ErrorCode.UNKNOWN_SERVER_ERROR


_EXPLAINED = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic or partition does not exist",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic of that name exists already",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "not a valid topic name",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group does not exist",
    ErrorCode.UNKNOWN_MEMBER_ID: (
        "The coordinator is not aware of this member: its session has ended, or it was removed from the group"
    ),
    ErrorCode.ILLEGAL_GENERATION: (
        "Specified group generation id is not valid: the group has rebalanced since the member joined"
    ),
    ErrorCode.NON_EMPTY_GROUP: "the group has members",
    ErrorCode.MESSAGE_TOO_LARGE: "the batch is larger than the topic's max.message.bytes",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "the group's members share no assignor with this one; compare partition_assignment_strategy"
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "session_timeout_ms lies outside the broker's group.min/max.session.timeout.ms"
    ),
    ErrorCode.FENCED_INSTANCE_ID: "another consumer has taken this group_instance_id over",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as the broker allows",
    ErrorCode.INVALID_PARTITIONS: "the number of partitions is not possible",
}
