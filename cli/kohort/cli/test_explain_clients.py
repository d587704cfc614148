"""What clients say themselves about the time of a rebalance."""

import msgspec
import pytest

from kohort.broker.explain.events import Waited
from kohort.broker.explain.explanation import explanation
from kohort.broker.explain.test_story import a_report
from kohort.broker.explain.timeline import Timeline
from kohort.broker.group.events import Cause, CauseKind
from kohort.broker.telemetry.evidence import ClientEvidence, ClientPeak
from kohort.cli.explain_clients import said_of

NOW = 1_800_000_000_000
LONG, COMMIT = "at most 21 s between two polls", "a commit took 900 ms at most"
LEFT = Cause(CauseKind.MEMBER_LEFT, NOW, "m-1", "billing-1", client_host="/10.0.0.7")
REPORT = a_report(cause=LEFT, started_ms=NOW, waited_for=(Waited("m-2", "billing-2", 5_000, True),))


def client(
    member_id: str, client_id: str = "billing-1", *, text: str = LONG, later_ms: int = 8_000
) -> ClientEvidence:
    at_ms = NOW + later_ms
    peak = ClientPeak(text, at_ms, at_ms - 90_000, at_ms + 30_000)
    return ClientEvidence(client_id, member_id, "10.0.0.7", "java", at_ms, False, (), (peak,))


@pytest.mark.parametrize("member_id", ["m-1", "another, since it rejoined"])
def test_who_left_says_how_long_its_application_had_worked(member_id: str) -> None:
    assert said_of(REPORT, (client(member_id),)) == [f"billing-1 itself says about that time: {LONG}"]


def test_who_held_it_up_says_so_as_well_and_several_numbers_are_one_line() -> None:
    slow = client("m-2", "billing-2")
    both = msgspec.structs.replace(slow, peaks=(*slow.peaks, *client("", text=COMMIT).peaks))
    assert said_of(REPORT, (both,)) == [f"billing-2 itself says about that time: {LONG}; {COMMIT}"]


@pytest.mark.parametrize(
    "stranger",
    [
        client("m-3", "billing-3"),
        client("m-1", later_ms=100_000),
        client("m-1", later_ms=-40_000),
        msgspec.structs.replace(client("m-3"), client_host="10.0.0.8"),
        msgspec.structs.replace(client("m-1"), peaks=()),
    ],
)
def test_other_clients_and_other_times_say_nothing(stranger: ClientEvidence) -> None:
    assert said_of(REPORT, (stranger,)) == []


def test_what_clients_say_stands_next_to_the_cause() -> None:
    timeline = Timeline(1)
    timeline.reports.append(REPORT)
    lines = [*explanation("g", timeline, 1, NOW, lambda report: said_of(report, (client("m-1"),)))]
    assert lines[1:3] == ["  Cause: m-1 left.", f"  billing-1 itself says about that time: {LONG}."]
