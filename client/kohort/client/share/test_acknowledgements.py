"""Records in hand, their acknowledgements, and how a request has them."""

from uuid import UUID

import pytest

from kohort.client.errors import NotAcquiredError
from kohort.client.share.acknowledgements import (
    GAP,
    TYPES_MAX,
    Acknowledgement,
    Acknowledgements,
    Batch,
    Held,
    batches,
)
from kohort.client.share.values import AcknowledgeType, AnyShareRecord, ShareRecord
from kohort.client.values import TopicPartition

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
WHERE = TopicPartition("t", 0)
HELD = Held(1, UUID(int=1), 1_000)


def record(offset: int, partition: int = 0) -> AnyShareRecord:
    return ShareRecord("t", partition, offset, 0, None, None)


def acknowledgements(**types: int) -> list[Acknowledgement]:
    return [Acknowledgement(WHERE, int(offset[1:]), HELD, type_) for offset, type_ in types.items()]


def holding(*offsets: int) -> Acknowledgements:
    found = Acknowledgements()
    found.hand_out([(record(each), HELD) for each in offsets], 0)
    return found


def test_a_record_is_acknowledged_once() -> None:
    hand = holding(5)
    hand.acknowledge(record(5), REJECT)
    assert hand.take_pending() == [Acknowledgement(WHERE, 5, HELD, REJECT)]
    assert (hand.take_pending(), len(hand)) == ([], 0)
    with pytest.raises(NotAcquiredError):
        hand.acknowledge(record(5), ACCEPT)
    with pytest.raises(NotAcquiredError):
        hand.acknowledge(record(5, partition=1), ACCEPT)


def test_a_renewed_record_stays_with_a_new_lock() -> None:
    hand = holding(5, 6)
    hand.acknowledge(record(5), RENEW)
    hand.renewed(hand.take_pending(), 9_000)
    hand.hand_out([], 2_000)
    assert len(hand) == 1, "the lock of the other one ran out"
    hand.acknowledge(record(5), ACCEPT)
    assert hand.take_pending()[0].held.until_ms == 9_000


def test_all_acquired_records_are_acknowledged_together() -> None:
    hand = holding(5, 6)
    hand.acknowledge(record(5), RELEASE)
    hand.acknowledge_all(ACCEPT)
    assert [(each.offset, each.type) for each in hand.take_pending()] == [(5, RELEASE), (6, ACCEPT)]


def test_adjacent_offsets_are_one_batch() -> None:
    pending = acknowledgements(_3=ACCEPT, _1=ACCEPT, _2=ACCEPT, _7=REJECT, _8=GAP)
    assert batches(pending) == (Batch(1, 3, (1,)), Batch(7, 8, (3, 0)))


def test_the_last_acknowledgement_of_a_record_counts() -> None:
    assert batches([*acknowledgements(_1=RENEW), *acknowledgements(_1=ACCEPT)]) == (Batch(1, 1, (1,)),)


def test_a_batch_has_no_end_of_types() -> None:
    pending = [Acknowledgement(WHERE, offset, HELD, ACCEPT) for offset in range(2 * TYPES_MAX + 1)]
    assert [each.last_offset - each.first_offset + 1 for each in batches(pending)] == [
        TYPES_MAX,
        TYPES_MAX,
        1,
    ]
