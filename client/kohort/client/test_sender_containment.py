"""What can't be sent ends its own batch, and nothing else."""

import pytest

from kohort.client import batch
from kohort.client.errors import SerializationError
from kohort.client.test_sender import World, numbers, response
from kohort.protocol.errors import ErrorCode


def test_a_record_that_cannot_be_encoded_is_refused_without_its_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, batch_max_size=10_000, linger_ms=5)
    world.send(1)
    for bad in (1.5, "late"):
        with pytest.raises(TypeError):
            world.accumulator.append("t", b"".ljust(60), None, 0, bad, ())  # type: ignore[arg-type]
    world.send(2)
    world.settle()
    assert numbers(world.logs[0]) == list(range(3))
    assert world.accumulator.buffered_bytes == 0


def test_a_batch_whose_first_record_is_refused_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    with pytest.raises(TypeError):
        world.accumulator.append("t", 1, None, 0, 0, ())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        world.accumulator.append("t", b"v", None, 0, 0, ((1, 2),))  # type: ignore[arg-type]
    world.settle()
    assert world.logs[0].values == []
    world.send(1)
    world.settle()
    assert numbers(world.logs[0]) == [0]
    assert world.accumulator.buffered_bytes == 0


def test_only_a_batch_that_cannot_be_encoded_fails_and_sequences_have_no_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.send(1)
    world.settle()
    with monkeypatch.context() as broken:
        broken.setattr(batch, "compress", refuse)
        (bad,) = world.send(1)
    world.send(2)
    world.settle()
    assert isinstance(bad.batch.error, SerializationError)
    assert isinstance(bad.batch.error.__cause__, TypeError)
    with pytest.raises(SerializationError, match="can't be encoded: TypeError"):
        bad.known_metadata()
    assert numbers(world.logs[0]) == [0, 2, 3]
    assert world.accumulator.buffered_bytes == 0


def refuse(compression: object, data: bytes, level: int | None) -> bytes:
    raise TypeError("no codec takes that")


def test_lost_records_are_logged_even_if_nobody_asks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch)
    world.send(1)
    _, on_done = world.wire.take()
    on_done(response((0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)))
    assert "1 record(s) for t-0 were given up: TOPIC_AUTHORIZATION_FAILED" in caplog.text
