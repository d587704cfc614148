"""Who goes on and who waits when all together hold much."""

from dataclasses import dataclass, field

import pytest

from kohort.broker.transport.in_flight import EXEMPTION_MS_MAX, HELD_BYTES_MAX, SHARE_BYTES_MIN, InFlight

BYTES_MAX = 40_000_000
NOW_MS = 1_700_000_000_000


@dataclass
class FakePeer:
    held_bytes: int = 0
    buffer_bytes: int = 1  # In the middle of a frame.
    frames: tuple[bytes, ...] = ()
    pieces: tuple[bytes, ...] = ()
    deferred: int = 0
    is_modest: bool = False


@dataclass(eq=False)
class FakeConnection:
    """Holds what it is told, and reads where the rules of a peer allow it."""

    in_flight: InFlight
    paused: bool = False
    peer: FakePeer = field(default_factory=FakePeer)

    def hold(self, size_bytes: int) -> None:
        before_bytes, self.peer.held_bytes = self.peer.held_bytes, size_bytes
        self.in_flight.note(before_bytes, size_bytes)

    def may_go_on(self) -> bool:
        allowance = self.in_flight.allowance
        if (self.peer.frames or self.peer.deferred) and allowance.is_full:
            return allowance.asking is self.peer
        if self.peer.held_bytes < allowance.held_bytes_max:
            return True
        return allowance.finishing is self.peer

    def look(self) -> None:
        """As a connection does after each turn."""
        if not self.may_go_on() and not self.paused:
            self.paused = True
            self.in_flight.wait(self)

    def resume_if_possible(self) -> None:
        if self.may_go_on():
            self.paused = False


def connections(in_flight: InFlight, *held_bytes: int) -> list[FakeConnection]:
    """Return connections that hold so much, and have looked whether they may go on."""
    made = [FakeConnection(in_flight) for _ in held_bytes]
    for connection, size_bytes in zip(made, held_bytes, strict=True):
        connection.hold(size_bytes)
    for connection in made:
        connection.look()
    return made


def test_while_memory_is_free_each_connection_can_hold_the_maximum() -> None:
    in_flight = InFlight(BYTES_MAX)
    connections(in_flight, BYTES_MAX // 2)
    assert in_flight.allowance.held_bytes_max == HELD_BYTES_MAX
    assert not in_flight.allowance.is_scarce


def test_the_heaviest_wait_first_and_the_light_go_on() -> None:
    in_flight = InFlight(BYTES_MAX)
    heavy, light, other = connections(in_flight, 15_000_000, 1_000, 14_000_000)
    for each in (heavy, other):
        each.peer.pieces = (b"owed",)
    assert [each.paused for each in (heavy, light, other)] == [True, False, True]
    heavy.hold(2_000_000)
    in_flight.end_round(NOW_MS)
    assert not heavy.paused
    assert not in_flight.waiting


def test_a_connection_that_holds_little_never_waits() -> None:
    in_flight = InFlight(1_000_000)
    connections(in_flight, *[2_000] * 1_000)
    assert in_flight.allowance.is_scarce
    assert in_flight.allowance.held_bytes_max == SHARE_BYTES_MIN


@pytest.mark.parametrize("count", [1, 2, 10, 300])
def test_all_connections_together_never_exceed_the_limit(count: int) -> None:
    """However many come one after the other, and each with more than there is."""
    in_flight = InFlight(BYTES_MAX)
    made: list[FakeConnection] = []
    for _ in range(count):
        made += connections(in_flight, 0)
        for _ in range(50):
            for connection in made:
                connection.peer.pieces = (b"owed",)  # Nobody needs to be let through.
                connection.look()
                if not connection.paused:
                    connection.hold(connection.peer.held_bytes + 20_000)
            in_flight.end_round(NOW_MS)
            if all(each.paused for each in made):
                break
    assert in_flight.held_bytes <= BYTES_MAX + count * 40_000


def test_large_frames_that_fill_memory_are_completed_one_by_one() -> None:
    in_flight = InFlight(BYTES_MAX)
    made = connections(in_flight, *[8_000_000] * 5)
    assert all(each.paused for each in made)
    done: list[FakeConnection] = []
    for _ in range(40):
        in_flight.end_round(NOW_MS)
        reading = [each for each in made if not each.paused and each not in done]
        assert reading or len(done) == 5
        assert in_flight.held_bytes <= BYTES_MAX + 30_000_000
        for connection in reading:
            connection.hold(connection.peer.held_bytes + 3_000_000)
            if connection.peer.held_bytes >= 30_000_000:
                connection.hold(0)
                connection.peer.buffer_bytes = 0
                done.append(connection)
            else:
                connection.look()
    assert len(done) == 5
    assert in_flight.held_bytes == 0


def test_a_connection_that_closes_frees_its_turn_for_the_next() -> None:
    in_flight = InFlight(BYTES_MAX)
    first, second = connections(in_flight, 30_000_000, 30_000_000)
    in_flight.end_round(NOW_MS)
    assert (first.paused, second.paused) == (False, True)
    in_flight.forget(first)
    second.hold(35_000_000)
    in_flight.end_round(NOW_MS)
    assert not second.paused


def test_a_connection_that_cannot_read_does_not_block_others() -> None:
    in_flight = InFlight(BYTES_MAX)
    owed, reading = connections(in_flight, 30_000_000, 30_000_000)
    owed.peer.pieces = (b"owed",)
    in_flight.end_round(NOW_MS)
    assert (owed.paused, reading.paused) == (True, False)


def test_a_connection_with_a_turn_gives_it_up_after_a_while() -> None:
    in_flight = InFlight(BYTES_MAX)
    first, second = connections(in_flight, 30_000_000, 30_000_000)
    in_flight.end_round(NOW_MS)
    assert (first.paused, second.paused) == (False, True)
    in_flight.end_round(NOW_MS + EXEMPTION_MS_MAX)
    first.look()
    assert (first.paused, second.paused) == (False, True)
    in_flight.end_round(NOW_MS + EXEMPTION_MS_MAX + 1)
    first.look()
    assert (first.paused, second.paused) == (True, False)


def test_memory_is_full_at_the_limit_plus_a_quarter() -> None:
    in_flight = InFlight(BYTES_MAX)
    [connection] = connections(in_flight, BYTES_MAX * 5 // 4 - 1)
    assert not in_flight.allowance.is_full
    connection.hold(BYTES_MAX * 5 // 4)
    assert in_flight.allowance.is_full
    connection.hold(0)
    assert not in_flight.allowance.is_full


def test_with_full_memory_connections_are_served_one_after_another() -> None:
    in_flight = InFlight(BYTES_MAX)
    connections(in_flight, BYTES_MAX * 2)[0].peer.pieces = (b"owed",)
    asking = [FakeConnection(in_flight) for _ in range(3)]
    for connection in asking:
        connection.peer = FakePeer(100, 0, (b"a question",))
        connection.look()
    in_flight.end_round(NOW_MS)
    assert [each.paused for each in asking] == [False, True, True]
    asking[0].peer = FakePeer(0, 0)  # Asked, answered, taken.
    in_flight.end_round(NOW_MS)
    assert [each.paused for each in asking] == [False, False, True]


def test_with_full_memory_connections_with_small_answers_are_served_first() -> None:
    in_flight = InFlight(BYTES_MAX)
    connections(in_flight, BYTES_MAX * 2)[0].peer.pieces = (b"owed",)
    asking = [FakeConnection(in_flight) for _ in range(9)]
    for connection in asking:
        connection.peer = FakePeer(100, 0, (b"a question",), is_modest=connection is asking[5])
        connection.look()
    in_flight.end_round(NOW_MS)
    assert [each for each in asking if not each.paused] == [asking[5]]


def test_with_full_memory_answers_are_encoded_one_after_another() -> None:
    in_flight = InFlight(BYTES_MAX)
    connections(in_flight, BYTES_MAX * 2)[0].peer.pieces = (b"owed",)
    asked = [FakeConnection(in_flight) for _ in range(2)]
    for connection in asked:
        connection.peer = FakePeer(100, 0, deferred=1)
        connection.look()
    in_flight.end_round(NOW_MS)
    assert [each.paused for each in asked] == [False, True]
    asked[0].peer = FakePeer(0, 0)  # Encoded and taken.
    in_flight.end_round(NOW_MS)
    assert [each.paused for each in asked] == [False, False]


def test_one_large_frame_does_not_block_requests_of_others() -> None:
    in_flight = InFlight(BYTES_MAX)
    [connection] = connections(in_flight, BYTES_MAX)
    in_flight.end_round(NOW_MS)
    assert not connection.paused
    connection.hold(10 * BYTES_MAX)
    assert not in_flight.allowance.is_full


def test_without_a_limit_no_connection_waits() -> None:
    in_flight = InFlight(-1)
    connections(in_flight, 10**12)
    assert not in_flight.allowance.is_scarce
    assert in_flight.allowance.held_bytes_max == HELD_BYTES_MAX
