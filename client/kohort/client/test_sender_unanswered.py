"""Records that no broker acknowledges: acks=0."""

from collections.abc import Callable

import pytest

from kohort.client.errors import KohortError, NetworkError
from kohort.client.test_sender import World
from kohort.protocol.messages.produce import ProduceRequest

OnSent = Callable[[KohortError | None], None]


class Unanswered(World):
    """One whose wire takes requests, and lets them go when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, max_in_flight: int = 5) -> None:
        super().__init__(monkeypatch, acks=0, max_in_flight=max_in_flight)
        self.going: list[OnSent] = []
        monkeypatch.setattr(self.wire, "send", self.take_in, raising=False)

    def take_in(self, request: ProduceRequest, on_sent: OnSent, *, highest: int | None) -> None:
        self.going.append(on_sent)


def test_a_record_with_acks_0_is_done_when_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Unanswered(monkeypatch)
    (only,) = world.send(1)
    assert not only.is_done, "a flush waits for it, and so does a close"
    assert world.accumulator.buffered_bytes > 0
    world.going.pop()(None)
    assert only.known_metadata().offset == -1
    assert world.accumulator.buffered_bytes == 0


def test_a_broker_that_does_not_read_delays_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Unanswered(monkeypatch, max_in_flight=2)
    world.send(5)
    assert len(world.going) == 2
    world.going.pop(0)(None)
    assert len(world.going) == 2


def test_an_unsent_batch_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Unanswered(monkeypatch)
    (only,) = world.send(1)
    world.going.pop()(NetworkError("broken"))
    assert not only.is_done
    world.pass_time(1_000)
    world.going.pop()(None)
    assert only.known_metadata().offset == -1
