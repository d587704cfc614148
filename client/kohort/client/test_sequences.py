from kohort.client.batch import Batch, ProducerIdentity
from kohort.client.sequences import PartitionSequences
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode

FIRST, SECOND = ProducerIdentity(7, 0), ProducerIdentity(7, 1)
OUT_OF_ORDER, UNKNOWN = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID


def batch(records: int) -> Batch:
    made = Batch(TopicPartition("t", 0), 0)
    for _ in range(records):
        made.records.add(0, None, b"v", ())
    return made


def sent(sequences: PartitionSequences, *sizes: int, identity: ProducerIdentity = FIRST) -> list[Batch]:
    batches = [batch(size) for size in sizes]
    for each in batches:
        sequences.assign(each, identity)
    return batches


def numbers(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(each.identity.epoch, each.base_sequence) for each in batches]


def test_each_batch_starts_where_the_previous_one_ends() -> None:
    assert numbers(sent(PartitionSequences(), 3, 5, 1)) == [(0, 0), (0, 3), (0, 8)]


def test_sequences_wrap_to_zero() -> None:
    sequences = PartitionSequences()
    (first,) = sent(sequences, 1)
    sequences.next = 2**31 - 2
    batches = sent(sequences, 3, 2)
    assert [each.base_sequence for each in batches] == [2**31 - 2, 1]
    for each in (first, *batches):
        sequences.acknowledge(each, -1)
    assert not sequences.has_gap()


def test_the_first_batch_is_sent_alone() -> None:
    sequences = PartitionSequences()
    assert not sequences.holds_back(batch(1), FIRST)
    (first,) = sent(sequences, 1)
    assert sequences.holds_back(batch(1), FIRST)
    sequences.acknowledge(first, 0)
    (second,) = sent(sequences, 1)
    assert not sequences.holds_back(batch(1), FIRST), "the log knows the producer now"
    second.attempts = 2
    assert sequences.holds_back(batch(1), FIRST), "only so many duplicates are remembered"


def test_a_repeated_batch_waits_for_all_earlier_ones() -> None:
    sequences = PartitionSequences()
    first, second = sent(sequences, 1, 1)
    assert sequences.holds_back(second, FIRST)
    assert not sequences.holds_back(first, FIRST)
    sequences.acknowledge(first, 10)
    assert not sequences.holds_back(second, FIRST)


def test_a_batch_behind_a_failed_one_is_out_of_order_and_sent_again() -> None:
    sequences = PartitionSequences()
    first, second = sent(sequences, 1, 1)
    assert not sequences.is_broken_by(second, OUT_OF_ORDER, -1)
    assert sequences.is_broken_by(first, OUT_OF_ORDER, -1), "nothing is before it: the broker has lost some"


def test_a_restart_renumbers_outstanding_batches() -> None:
    sequences = PartitionSequences()
    batches = sent(sequences, 2, 2, 2)
    sequences.acknowledge(batches[0], 0)
    sequences.restart(SECOND)
    assert numbers(batches[1:]) == [(1, 0), (1, 2)]
    assert not sequences.is_broken_by(batches[1], OUT_OF_ORDER, -1), "it was sent under its old number"
    assert numbers(sent(sequences, 1, identity=SECOND)) == [(1, 4)]


def test_a_new_epoch_of_another_partition_applies_when_nothing_is_in_flight() -> None:
    sequences = PartitionSequences()
    (first,) = sent(sequences, 2)
    assert sequences.holds_back(batch(1), SECOND)
    sequences.acknowledge(first, 0)
    assert numbers(sent(sequences, 1, identity=SECOND)) == [(1, 0)]


def test_an_expired_batch_delays_new_ones_until_its_result_is_known() -> None:
    sequences = PartitionSequences()
    first, second, third = sent(sequences, 1, 1, 1)
    sequences.acknowledge(first, 0)
    sequences.forget(second)
    sequences.is_unresolved = True
    assert sequences.holds_back(batch(1), FIRST)
    assert sequences.is_broken_by(third, OUT_OF_ORDER, -1), "the expired one was not written"
    sequences.acknowledge(third, 2)
    assert not sequences.has_gap(), "the one behind it was taken, so it was written"


def test_a_producer_that_the_broker_forgot_restarts() -> None:
    sequences = PartitionSequences()
    first, second = sent(sequences, 1, 1)
    assert not sequences.is_broken_by(first, UNKNOWN, -1), "an old broker does not say enough"
    assert sequences.is_broken_by(first, UNKNOWN, 50)
    sequences.restart(SECOND)
    assert not sequences.is_broken_by(second, UNKNOWN, 50), "one restart is for all that are in flight"


def test_the_halves_of_a_split_batch_take_its_sequences_and_order() -> None:
    sequences = PartitionSequences()
    first, second, third = sent(sequences, 2, 5, 1)
    halves = second.split()
    sequences.replace(second, halves)
    assert sequences.outstanding == [first, *halves, third]
    assert numbers(sequences.outstanding) == [(0, 0), (0, 2), (0, 4), (0, 7)]
