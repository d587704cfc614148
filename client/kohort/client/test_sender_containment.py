"""What can't be sent ends its own batch, and nothing else."""

import pytest

from kohort.client.errors import SerializationError
from kohort.client.test_sender import World, numbers


def test_a_batch_that_cannot_be_encoded_fails_alone_and_no_sequence_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.send(1)
    world.settle()
    world.send(1)
    bad = world.accumulator.append("t", b"".ljust(60), None, 0, 1.5, ())  # type: ignore[arg-type]
    assert bad is not None
    world.send(2)
    world.settle()
    assert isinstance(bad.batch.error, SerializationError)
    assert isinstance(bad.batch.error.__cause__, TypeError)
    with pytest.raises(SerializationError, match="can't be encoded: TypeError"):
        bad.known_metadata()
    assert numbers(world.logs[0]) == list(range(4))
    assert world.accumulator.buffered_bytes == 0
