"""In which states records are that a share group reads, and what their members say of them."""

from dataclasses import dataclass
from enum import Enum, IntEnum


class RecordState(IntEnum):
    """The state of a record, in the numbers of Kafka's share state records."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Archived except for its dead letter (KIP-1191)."""
    ARCHIVED = 4


class Acknowledgement(IntEnum):
    """A member's acknowledgement of a record, in the numbers of ShareAcknowledge."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4  # KIP-1222


class Cause(Enum):
    """Why a record is archived, as in the header of its dead letter in Kafka."""

    REJECTED = "Offset rejected by client."
    DELIVERED_TOO_OFTEN = "Offset delivery count exceeded the threshold."


FINAL = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))


@dataclass(frozen=True, slots=True)
class Batch:
    """Offsets beside each other, first and last included, of one state and delivery count."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int


@dataclass(frozen=True, slots=True)
class DeadRecords:
    """Offsets beside each other that are given up for one cause, first and last included."""

    first_offset: int
    last_offset: int
    delivery_count: int
    cause: Cause | None
