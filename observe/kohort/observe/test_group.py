from collections.abc import ItemsView

import pytest

from kohort.broker.explain.findings import Likelihood
from kohort.broker.explain.observed.events import (
    GroupChanged,
    OffsetsSet,
    OwnedPartition,
)
from kohort.broker.explain.observed.explaining import explain
from kohort.client import TopicPartition
from kohort.client.batches import FetchedBatch
from kohort.observe.records import Records
from kohort.observe.test_records import TOPIC_ID, Log
from kohort.protocol.offsets_topic import (
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from kohort.protocol.records import HEADER_BYTES, build_batch, read_header


def test_many_members_that_leave_at_once_cost_one_pass_over_the_partitions() -> None:
    """A pass for each of them would take the square of their number."""
    passes = 0

    class Counted(dict[int, str]):
        def items(self) -> ItemsView[int, str]:  # type: ignore[override]  # A dict's own kind has no name.
            nonlocal passes
            passes += 1
            return super().items()

    log = Log()
    names = [f"m-{each:03}" for each in range(200)]
    log.generation(1, {name: [each] for each, name in enumerate(names)})
    log.events()
    owners = log.records.groups["g"].snapshot.owners
    owners["t"] = Counted(owners["t"])
    log.now_ms += 1_000
    log.generation(2, {names[0]: [0]})
    (change,) = log.events()
    assert isinstance(change, GroupChanged)
    assert [each.owned for each in change.gone] == [
        (OwnedPartition("t", each, -1, -1),) for each in range(1, 200)
    ]
    assert passes == 1


@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize("members", [{"a": [0, 1]}, {}])
@pytest.mark.parametrize("restored", [False, True])
def test_a_commit_that_goes_back_in_a_transaction_may_follow_an_aborted_one(
    is_transactional: bool, members: dict[str, list[int]], restored: bool
) -> None:
    """A reader of uncommitted records does not know yet which transactions are aborted."""
    log = Log()
    log.generation(1, {"a": [0, 1]})
    log.generation(2, members)
    log.commit(0, 1_000)
    log.commit(1, 10)
    if restored:
        ((_, state, _),) = log.records.drain()
        assert state is not None
        log.records = Records(log.records.facts)
        log.records.restore("g", state)
    log.now_ms += 120_000
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=0))
    value = OffsetCommitValue(offset=950, metadata="", commit_timestamp=log.now_ms, topic_id=TOPIC_ID)
    records = [(log.now_ms, key, encode_value(value), ())]
    data = build_batch(records, is_transactional=is_transactional)
    where = TopicPartition("__consumer_offsets", 0)
    log.records.take_batch(FetchedBatch(where, read_header(data), data[HEADER_BYTES:], 0))
    (event,) = [each for each in log.events() if isinstance(each, OffsetsSet)]
    found = explain([event])[0].findings
    expected = Likelihood.POSSIBLE if is_transactional else Likelihood.LIKELY
    assert {each.likelihood for each in found} == {expected}
    assert any("or a transaction was aborted" in each.text for each in found) == is_transactional
