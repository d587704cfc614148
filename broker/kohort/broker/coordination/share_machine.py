"""Share state as a kind of state machine: its records, in `__share_group_state`."""

from typing import NoReturn

from kohort.broker.group import Record
from kohort.broker.metadata import SHARE_STATE_TOPIC
from kohort.broker.share_state.coordinator import ShareStateConfig, ShareStateCoordinator
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message
from kohort.protocol.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)


class ShareStateMachine:
    """Makes share coordinators, and translates between them and their shards."""

    topic = SHARE_STATE_TOPIC
    is_compacted = False

    def __init__(self, config: ShareStateConfig) -> None:
        self.config = config

    @property
    def write_timeout_ms(self) -> int:
        """How long an answer may wait for other replicas: `share.coordinator.write.timeout.ms`."""
        return self.config.write_timeout_ms

    def new_core(self) -> ShareStateCoordinator:
        """Return a coordinator that knows no share partition."""
        return ShareStateCoordinator(self.config)

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Return the record's key and value as `__share_group_state` holds them. Raises: WireError."""
        key, value = record.key, record.value
        assert isinstance(key, ShareSnapshotKey | ShareUpdateKey), key
        assert value is None or isinstance(value, ShareSnapshotValue | ShareUpdateValue), value
        return encode_key(key), None if value is None else encode_value(value)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """Return the record; None for a kind of a newer Kafka. Raises: WireError."""
        found = decode_key(key)
        return None if found is None else Record(found, None if value is None else decode_value(found, value))

    def timer_fired(self, key: object) -> NoReturn:
        """Raise: the core sets no timers."""
        raise AssertionError(key)

    def refusal(self, command: object, code: ErrorCode) -> tuple[int, Message] | None:
        """Return request id and answer of a refused command; None without a requester."""
        refused = getattr(command, "refused", None)
        return None if refused is None else (getattr(command, "request_id", -1), refused(code))

    def refused_instead(self, message: Message, code: ErrorCode) -> Message | None:
        """Return None: no request waits for another one's command."""
        return None
