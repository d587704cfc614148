"""The records of `__share_group_state`, written out byte by byte."""

from uuid import UUID

import pytest

from kohort.protocol.errors import WireError
from kohort.protocol.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

TOPIC = UUID(int=7)
BATCHES = (ShareStateBatch(first_offset=5, last_offset=6, delivery_state=2, delivery_count=1),)
BATCH_BYTES = b"\2" + b"\0" * 7 + b"\5" + b"\0" * 7 + b"\6" + b"\2" + b"\0\1" + b"\0"
SNAPSHOT = ShareSnapshotValue(
    snapshot_epoch=1,
    state_epoch=2,
    leader_epoch=3,
    start_offset=4,
    create_timestamp=8,
    write_timestamp=9,
    state_batches=BATCHES,
)
UPDATE = ShareUpdateValue(
    snapshot_epoch=1, leader_epoch=3, start_offset=4, delivery_complete_count=2, state_batches=BATCHES
)


def test_a_key_is_its_type_and_a_share_partition() -> None:
    data = b"\0\1" + b"\0\1g" + TOPIC.bytes + b"\0\0\0\2"
    key = ShareUpdateKey(group_id="g", topic_id=TOPIC, partition=2)
    assert encode_key(key) == data
    assert decode_key(data) == key
    assert decode_key(b"\0\0" + data[2:]) == ShareSnapshotKey(group_id="g", topic_id=TOPIC, partition=2)
    assert decode_key(b"\0\2" + data[2:]) is None


def test_a_snapshot_has_the_whole_state() -> None:
    fixed = b"\0\0\0\1\0\0\0\2\0\0\0\3" + b"".join(n.to_bytes(8, "big") for n in (4, 8, 9))
    data = b"\0\0" + fixed + BATCH_BYTES + b"\0"
    key = ShareSnapshotKey(group_id="g", topic_id=TOPIC, partition=2)
    assert encode_value(SNAPSHOT) == data
    assert decode_value(key, data) == SNAPSHOT


def test_an_update_has_the_changes_and_a_tagged_completed_count() -> None:
    data = b"\0\0" + b"\0\0\0\1\0\0\0\3" + b"\0" * 7 + b"\4" + BATCH_BYTES + b"\1\0\4\0\0\0\2"
    key = ShareUpdateKey(group_id="g", topic_id=TOPIC, partition=2)
    assert encode_value(UPDATE) == data
    assert decode_value(key, data) == UPDATE


def test_truncated_or_newer_values_are_refused() -> None:
    key = ShareUpdateKey(group_id="g", topic_id=TOPIC, partition=2)
    for broken in (b"", b"\0", b"\0\1" + encode_value(UPDATE)[2:], encode_value(UPDATE)[:-1]):
        with pytest.raises(WireError):
            decode_value(key, broken)
    with pytest.raises(WireError):
        decode_key(b"\0")
