"""Groups as a kind of state machine: their records, in `__consumer_offsets`."""

from collections.abc import Callable

from kohort.broker.explain.history import HistoryRoom
from kohort.broker.explain.journal import RebalanceJournal
from kohort.broker.group import (
    NO_REQUEST,
    GroupConfig,
    GroupCoordinator,
    Record,
    Room,
    TimerFired,
    refusal,
    refused_instead,
)
from kohort.broker.group.rebalance_facts import Journal
from kohort.broker.metadata import OFFSETS_TOPIC
from kohort.protocol.errors import ErrorCode
from kohort.protocol.offsets_topic import UnknownKey, decode_record, encode_record
from kohort.protocol.schema import Message


class GroupMachine:
    """Makes group coordinators, and translates between them and their shards."""

    topic = OFFSETS_TOPIC
    is_compacted = True
    timer_fired = TimerFired

    def __init__(
        self,
        config: GroupConfig,
        core: Callable[[GroupConfig, Room, Journal], GroupCoordinator] = GroupCoordinator,
    ) -> None:
        self.config = config
        self._core = core
        self._room = Room()
        self._history_room = HistoryRoom()

    @property
    def write_timeout_ms(self) -> int:
        """How long a commit may wait for other replicas: `offsets.commit.timeout.ms`."""
        return self.config.offsets_commit_timeout_ms

    def new_core(self) -> GroupCoordinator:
        """Return a coordinator without groups."""
        return self._core(self.config, self._room, RebalanceJournal(self._history_room))

    encode = staticmethod(encode_record)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """Return the record; None for a kind of a newer Kafka: it stays in the log.

        Raises: WireError.
        """
        found = decode_record(key, value)
        return None if isinstance(found, UnknownKey) else Record(found.key, found.value)

    def refusal(self, command: object, code: ErrorCode) -> tuple[int, Message] | None:
        """Return request id and answer of a refused command; None without a requester."""
        message = refusal(command, code)
        return None if message is None else (getattr(command, "request_id", NO_REQUEST), message)

    def refused_instead(self, message: Message, code: ErrorCode) -> Message | None:
        """Return the error that a parked member gets instead of its generation or its assignment."""
        return refused_instead(message, code)
