"""One fetch of a partition."""

import struct

from kohort.client import TopicPartition
from kohort.client.fetched_chunk import Chunk
from kohort.client.positions import PartitionState
from kohort.protocol.records import build_batch


def test_a_batch_with_a_wrong_base_offset_does_not_move_the_position_back() -> None:
    whole = build_batch([(1, None, b"a", ())] * 10, base_offset=0)
    wrong = bytearray(build_batch([(1, None, b"b", ())], base_offset=10))
    struct.pack_into(">q", wrong, 0, 3)  # The CRC does not cover it.
    state = PartitionState(TopicPartition("t", 0))
    state.seek(5)
    (taken,) = Chunk(state, whole + wrong).take_batches(1 << 20)
    assert taken.header.base_offset == 0
    assert state.position == 10
    assert Chunk(state, whole + wrong).take_batches(1 << 20) == []
