"""Transactions as a kind of state machine: their records, in `__transaction_state`."""

from kohort.broker.group import Record
from kohort.broker.metadata import TRANSACTIONS_TOPIC
from kohort.broker.transactions.answers import refusal
from kohort.broker.transactions.commands import Command, TimerFired, TransactionTimer
from kohort.broker.transactions.coordinator import TransactionConfig, TransactionCoordinator
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message
from kohort.protocol.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

WRITE_TIMEOUT_MS = 5_000


class TransactionMachine:
    """Makes transaction coordinators, and translates between them and their shards."""

    topic = TRANSACTIONS_TOPIC
    is_compacted = True

    def __init__(self, config: TransactionConfig) -> None:
        self.config = config

    @property
    def write_timeout_ms(self) -> int:
        """How long an answer may wait for other replicas."""
        return WRITE_TIMEOUT_MS

    def new_core(self) -> TransactionCoordinator:
        """Return a coordinator that knows no transactional id."""
        return TransactionCoordinator(self.config)

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Return the record's key and value as `__transaction_state` holds them. Raises: WireError."""
        assert isinstance(record.key, TransactionLogKey)
        if record.value is None:
            return encode_key(record.key), None
        assert isinstance(record.value, TransactionLogValue)
        return encode_key(record.key), encode_value(record.value)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """Return the record; None for a kind of a newer Kafka. Raises: WireError."""
        found = decode_key(key)
        return None if found is None else Record(found, None if value is None else decode_value(value))

    def timer_fired(self, key: TransactionTimer) -> TimerFired:
        """Return the command for a timer."""
        return TimerFired(key)

    def refusal(self, command: Command, code: ErrorCode) -> tuple[int, Message] | None:
        """Return request id and answer of a refused command; None without a requester."""
        message = refusal(command, code)
        return None if message is None else (getattr(command, "request_id", -1), message)

    def refused_instead(self, message: Message, code: ErrorCode) -> Message | None:
        """Return None: no request waits for another one's command."""
        return None
