"""What can't be sent ends its own batch, and nothing else."""

import pytest

from kohort.client.errors import SerializationError
from kohort.client.test_sender import World, numbers, response
from kohort.protocol.errors import ErrorCode


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


def test_records_that_are_given_up_are_told_of_even_if_nobody_asks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch)
    world.send(1)
    _, on_done = world.wire.take()
    on_done(response((0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)))
    assert "1 record(s) for t-0 were given up: TOPIC_AUTHORIZATION_FAILED" in caplog.text
