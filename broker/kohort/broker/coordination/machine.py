"""A replicated state machine that a shard runs: its core, the topic of its log, and its records there.

Groups, transactions and share state are three of them. The core is pure and decides; its shard
executes the decisions.
"""

from typing import Any, Protocol, TypeVar

from kohort.broker.group import Decision, Record
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message


class Core(Protocol):
    """A state machine: commands in, records and effects out; `replay` alone changes logged state."""

    def handle(self, command: Any, now_ms: int, /) -> Decision:
        """Return what follows from the command at that time."""
        ...

    def replay(self, record: Any, /) -> None:
        """Replay a record that was just decided, or one read from the log."""
        ...

    def loaded(self, now_ms: int, /) -> Decision:
        """Return what follows from the whole log having been replayed."""
        ...

    def give_up(self, code: ErrorCode, /) -> Decision:
        """Return the answers to all parked requests; the core is not used after it."""
        ...


CoreT = TypeVar("CoreT", bound=Core)
CoreT_co = TypeVar("CoreT_co", bound=Core, covariant=True)


class Machine(Protocol[CoreT_co]):
    """A kind of state machine: makes its cores, and translates for the shard."""

    topic: str
    """The topic whose partitions hold the logs."""
    is_compacted: bool
    """Whether a record replaces the earlier ones of its key; otherwise every record is replayed."""

    @property
    def write_timeout_ms(self) -> int:
        """How long an answer may wait until other replicas have its records."""
        ...

    def new_core(self) -> CoreT_co:
        """Return a core that knows nothing yet."""
        ...

    def encode(self, record: Record, /) -> tuple[bytes, bytes | None]:
        """Return the record's key and value as the log holds them. Raises: WireError."""
        ...

    def decode(self, key: bytes, value: bytes | None, /) -> Record | None:
        """Return the record, None where the core does not know its kind. Raises: WireError."""
        ...

    def timer_fired(self, key: Any, /) -> Any:
        """Return the command for a timer that the core has set."""
        ...

    def refusal(self, command: Any, code: ErrorCode, /) -> tuple[int, Message] | None:
        """Return request id and answer of a refused command; None without a requester."""
        ...

    def refused_instead(self, message: Message, code: ErrorCode, /) -> Message | None:
        """Return an error instead of the answer of another command; None without one."""
        ...
