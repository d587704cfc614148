"""The demo's arithmetic: what makes it fail, and what it lets pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.flights import report
from examples.flights.dataset import FLIGHTS, MeanDelays, delays_in_data_frame, read_flights
from examples.flights.history import History
from examples.flights.journal import Counted, Journal, JournalReader, read_events
from examples.flights.ledger import Ledger

TRUTH = {"UA": MeanDelays(2, 5.0, -1.0), "OO": MeanDelays(1, 0.0, 0.0)}
COUNTED = [
    Counted(0, 0, 0, "UA", 4, -1),
    Counted(0, 1, 1, "UA", 6, None),
    Counted(1, 0, 2, "OO", None, None),
]


def ledger_of(*counted: Counted) -> Ledger:
    ledger = Ledger(expected=len(COUNTED))
    ledger.add("member", counted)
    return ledger


def test_every_flight_counted_once_passes() -> None:
    verdict = ledger_of(*COUNTED).verify(TRUTH)
    assert verdict.passed
    assert (verdict.missing, verdict.read_twice) == ((), 0)


def test_a_missing_flight_fails_and_is_named() -> None:
    verdict = ledger_of(*COUNTED[:2]).verify(TRUTH)
    assert not verdict.passed
    assert verdict.missing == (2,)
    assert "1 lost" in report.verdict_lines(verdict)[0]


def test_a_flight_read_twice_passes_and_counts_once_in_the_means() -> None:
    verdict = ledger_of(*COUNTED, COUNTED[1]).verify(TRUTH)
    assert verdict.passed
    assert verdict.read_twice == 1


def test_a_flight_counted_under_another_carrier_fails() -> None:
    swapped = Counted(1, 0, 2, "UA", None, None)
    assert ledger_of(*COUNTED[:2], swapped).verify(TRUTH).wrong_means == ("OO", "UA")


def test_the_busiest_member_is_the_last_reader_with_the_largest_backlog() -> None:
    ledger = Ledger(expected=10)
    ledger.add("one", [Counted(0, 0, 0, "UA", 1, 1)])
    ledger.add("two", [Counted(1, 0, 1, "UA", 1, 1)])
    assert ledger.unread_by_member({0: 4, 1: 6, 2: 0}) == {"one": 3, "two": 5}


def test_an_incomplete_line_waits_for_its_end(tmp_path: Path) -> None:
    journal, reader = Journal(tmp_path, "one"), JournalReader(tmp_path, "one")
    value = b'{"index":7,"date":"2013-01-01","carrier":"UA","number":1,"tail_number":null,"origin":"EWR",'
    value += b'"destination":"IAH","departure_delay":2,"arrival_delay":null,"distance":1400}'
    assert reader.new() == []
    assert journal.count([(3, 4, value)]) == 1
    path = tmp_path / "one.flights"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert reader.new() == []
    path.write_bytes(whole)
    assert reader.new() == [Counted(3, 4, 7, "UA", 2, None)]


def test_events_of_all_members_are_sorted_by_time(tmp_path: Path) -> None:
    one, two = Journal(tmp_path, "one"), Journal(tmp_path, "two")
    one.note("assigned", [2, 1])
    two.note("assigned", [3])
    one.note("left")
    assert [(event.member, event.what, event.partitions) for event in read_events(tmp_path)] == [
        ("one", "assigned", (1, 2)),
        ("two", "assigned", (3,)),
        ("one", "left", ()),
    ]


@pytest.fixture(scope="module")
def ledger_of_the_file() -> Ledger:
    ledger = Ledger()
    ledger.add(
        "file",
        (
            Counted(0, 0, flight.index, flight.carrier, flight.departure_delay, flight.arrival_delay)
            for flight in read_flights()
        ),
    )
    return ledger


def test_the_file_read_line_by_line_agrees_with_the_data_frame(ledger_of_the_file: Ledger) -> None:
    truth = delays_in_data_frame()
    assert ledger_of_the_file.verify(truth).passed
    assert sum(carrier.flights for carrier in truth.values()) == FLIGHTS


def test_the_rebalances_of_the_broker_are_kept_over_its_restart() -> None:
    first = b"""{"group_id":"g","history":[{"outcome":"stable","generation_id":1,"started_ms":1000,
        "cause":{"kind":"a member joined","at_ms":1000,"client_id":"aiokafka"},"still_ms":40,"members":3,
        "waited_for":[{"member_id":"m","client_id":"slow","waited_ms":30,"joined":false}],"moves":[{}]}]}"""
    second = b"""{"group_id":"g","history":[{"outcome":"stable","generation_id":2,"started_ms":5000,
        "cause":{"kind":"a member left"},"still_ms":7,"members":2}]}"""
    history = History()
    for answer in (first, first, second):
        history.take(answer)
    assert [each.cells(0.0) for each in history.rebalances] == [
        ("1.0", "1", "a member joined: aiokafka", "3", "1", "slow, 30 ms, in vain", "40 ms"),
        ("5.0", "2", "a member left", "2", "0", "", "7 ms"),
    ]
