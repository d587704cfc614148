"""Who goes on and who waits when all together hold much."""

from dataclasses import dataclass, field

import pytest

from kohort.broker.transport.in_flight import HELD_BYTES_MAX, PASSAGE_MS_MAX, SHARE_BYTES_MIN, InFlight

BYTES_MAX = 1_000_000
NOW_MS = 1_700_000_000_000


@dataclass
class FakePeer:
    held_bytes: int = 0
    buffer_bytes: int = 1  # In the middle of a frame.
    frames: tuple[bytes, ...] = ()
    pieces: tuple[bytes, ...] = ()


@dataclass(eq=False)
class FakeConnection:
    """Holds what it is told, and reads where the rules of a peer allow it."""

    in_flight: InFlight
    paused: bool = False
    peer: FakePeer = field(default_factory=FakePeer)

    def hold(self, size_bytes: int) -> None:
        self.in_flight.note(self.peer.held_bytes, size_bytes)
        self.peer.held_bytes = size_bytes

    def may_read(self) -> bool:
        allowance = self.in_flight.allowance
        if self.peer.held_bytes < allowance.held_bytes_max:
            return True
        if not self.peer.buffer_bytes:
            return False
        return not allowance.is_scarce or allowance.lets_through(self.peer)

    def look(self) -> None:
        """As a connection does after each turn."""
        if not self.may_read() and not self.paused:
            self.paused = True
            self.in_flight.wait(self)

    def resume_if_possible(self) -> None:
        if self.may_read():
            self.paused = False


def test_while_there_is_room_each_may_hold_the_most() -> None:
    in_flight = InFlight(BYTES_MAX)
    FakeConnection(in_flight).hold(BYTES_MAX // 2)
    assert in_flight.allowance.held_bytes_max == HELD_BYTES_MAX
    assert not in_flight.allowance.is_scarce


def test_beyond_half_of_it_the_heaviest_wait_and_the_light_go_on() -> None:
    in_flight = InFlight(BYTES_MAX)
    heavy, light = FakeConnection(in_flight), FakeConnection(in_flight)
    heavy.peer.buffer_bytes = 0
    heavy.hold(500_001)
    light.hold(1_000)
    heavy.look()
    light.look()
    assert (heavy.paused, light.paused) == (True, False)
    in_flight.end_round(NOW_MS)
    assert heavy.paused
    heavy.hold(200_000)
    in_flight.end_round(NOW_MS)
    assert not heavy.paused
    assert not in_flight.waiting


def test_who_holds_little_never_waits_however_many_there_are() -> None:
    in_flight = InFlight(BYTES_MAX)
    for _ in range(1_000):
        FakeConnection(in_flight).hold(2_000)
    assert in_flight.allowance.is_scarce
    assert in_flight.allowance.held_bytes_max == SHARE_BYTES_MIN


@pytest.mark.parametrize("count", [2, 10, 40])
def test_all_together_hold_no_more_than_the_limit_and_what_one_reads_at_once(count: int) -> None:
    in_flight = InFlight(BYTES_MAX)
    connections = [FakeConnection(in_flight) for _ in range(count)]
    for connection in connections:
        connection.peer.buffer_bytes = 0
    for _ in range(200):
        for connection in connections:
            connection.look()
            if not connection.paused:
                connection.hold(connection.peer.held_bytes + 10_000)
        in_flight.end_round(NOW_MS)
    assert in_flight.held_bytes <= BYTES_MAX + count * 10_000


def test_large_frames_that_fill_everything_are_finished_one_by_one() -> None:
    in_flight = InFlight(BYTES_MAX)
    connections = [FakeConnection(in_flight) for _ in range(5)]
    for connection in connections:
        connection.hold(190_000)
    for connection in connections:
        connection.look()
    assert all(each.paused for each in connections)
    done: list[FakeConnection] = []
    for _ in range(40):
        in_flight.end_round(NOW_MS)
        reading = [each for each in connections if not each.paused and each not in done]
        if in_flight.allowance.is_scarce:
            assert len(reading) == 1
        for connection in reading:
            connection.hold(connection.peer.held_bytes + 30_000)
            if connection.peer.held_bytes >= 400_000:
                connection.hold(0)
                connection.peer.buffer_bytes = 0
                done.append(connection)
            else:
                connection.look()
    assert len(done) == 5
    assert in_flight.held_bytes == 0


def test_who_closes_while_it_may_finish_makes_way_for_the_next() -> None:
    in_flight = InFlight(BYTES_MAX)
    first, second = FakeConnection(in_flight), FakeConnection(in_flight)
    for connection in (first, second):
        connection.hold(600_000)
    for connection in (first, second):
        connection.look()
    in_flight.end_round(NOW_MS)
    assert (first.paused, second.paused) == (False, True)
    in_flight.forget(first)
    second.hold(700_000)
    first.peer.buffer_bytes = 0
    in_flight.end_round(NOW_MS)
    assert not second.paused


def test_who_can_use_no_room_does_not_keep_the_others_from_it() -> None:
    in_flight = InFlight(BYTES_MAX)
    owed, reading = FakeConnection(in_flight), FakeConnection(in_flight)
    owed.peer.buffer_bytes = 0
    for connection in (owed, reading):
        connection.hold(600_000)
    for connection in (owed, reading):
        connection.look()
    in_flight.end_round(NOW_MS)
    assert (owed.paused, reading.paused) == (True, False)


def test_without_a_limit_nobody_waits() -> None:
    in_flight = InFlight(-1)
    connection = FakeConnection(in_flight)
    connection.hold(10**12)
    assert not in_flight.allowance.is_scarce
    assert in_flight.allowance.held_bytes_max == HELD_BYTES_MAX


def test_who_is_let_through_makes_way_after_a_while() -> None:
    in_flight = InFlight(BYTES_MAX)
    first, second = FakeConnection(in_flight), FakeConnection(in_flight)
    for connection in (first, second):
        connection.hold(600_000)
    for connection in (first, second):
        connection.look()
    in_flight.end_round(NOW_MS)
    assert (first.paused, second.paused) == (False, True)
    in_flight.end_round(NOW_MS + PASSAGE_MS_MAX)
    first.look()
    assert (first.paused, second.paused) == (False, True)
    in_flight.end_round(NOW_MS + PASSAGE_MS_MAX + 1)
    first.look()
    assert (first.paused, second.paused) == (True, False)


def test_room_is_full_when_all_of_it_is_taken() -> None:
    in_flight = InFlight(BYTES_MAX)
    connection = FakeConnection(in_flight)
    connection.hold(BYTES_MAX - 1)
    assert not in_flight.allowance.is_full
    connection.hold(BYTES_MAX)
    assert in_flight.allowance.is_full
    connection.hold(0)
    assert not in_flight.allowance.is_full
