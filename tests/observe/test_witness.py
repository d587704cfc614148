"""What brokers say about members that are gone, as plantings are judged by it."""

from __future__ import annotations

import pytest

from kohort.broker.explain.findings import FindingKind
from tests.observe.witness import Departed, departures_in, is_true

K = FindingKind
UUID = "54944cad-496d-48a4-96e6-166188e68bd5"
MEMBER, GROUP, NOW = f"billing-1-{UUID}", "dies-1", 1_795_814_000_000
SAID = "has left group through explicit `LeaveGroup` request; client reason:"
WHERE = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3]"
CLASSIC, NEWER = f"{WHERE} [Group {GROUP}]", f"{WHERE} [GroupId {GROUP}]"
FENCED = "Member p056YRijSSeE0oxtCgVtgQ fenced from the group because"
LOG = [
    "[2026-11-27 21:24:01,123] INFO no line of this pattern (kafka.server.KafkaRaftServer)",
    f"{NOW} WARN {WHERE} something else about {GROUP}",
    f"{NOW} INFO {NEWER} Dynamic member {MEMBER} {SAID} the consumer is being closed",
    f"{NOW + 1} INFO {CLASSIC} Member {MEMBER} {SAID} consumer poll timeout has expired.",
    f"{NOW + 2} INFO {WHERE} Member {MEMBER} in group {GROUP} has failed, removing it from the group.",
    f"{NOW + 3} INFO {NEWER} {FENCED} the member session expired.",
    f"{NOW + 4} INFO {NEWER} Member p056YRijSSeE0oxtCgVtgQ left the consumer group.",
    f"{NOW + 5} INFO {WHERE} Member {MEMBER} in group {GROUP}0 has failed, removing it from the group.",
    f"{NOW + 6} INFO {NEWER} {FENCED} it failed to transition from epoch 1 within 5ms.",
]


def test_a_log_of_kafka_says_who_left_who_worked_too_long_and_who_missed_its_session() -> None:
    found = list(departures_in((f"{each}\n" for each in LOG), GROUP))
    assert found == [
        Departed(NOW, K.MEMBER_LEFT, MEMBER),
        Departed(NOW + 1, K.POLL_INTERVAL_EXCEEDED, MEMBER),
        Departed(NOW + 2, K.MEMBER_EXPIRED, MEMBER),
        Departed(NOW + 3, K.MEMBER_EXPIRED, "p056YRijSSeE0oxtCgVtgQ"),
        Departed(NOW + 4, K.MEMBER_LEFT, "p056YRijSSeE0oxtCgVtgQ"),
    ]
    assert [each.client for each in found[2:4]] == ["billing-1", ""]


def finding(kind: FindingKind, name: str = "billing-1-54944cad") -> dict[str, str]:
    return {"kind": kind.value, "text": f"{name} did something"}


@pytest.mark.parametrize("kind", [K.MEMBER_LEFT, K.MEMBER_EXPIRED, K.POLL_INTERVAL_EXCEEDED])
def test_a_finding_about_a_member_is_true_if_the_brokers_say_the_same(kind: FindingKind) -> None:
    gone = [Departed(NOW, kind, MEMBER)]
    assert is_true(finding(kind), gone, K.MEMBER_JOINED)
    assert is_true(finding(kind, "billing-1"), gone, K.MEMBER_JOINED)  # The instance of a static member.
    assert not is_true(finding(kind, "billing-1-11111111"), gone, K.MEMBER_JOINED)
    for other in {K.MEMBER_LEFT, K.MEMBER_EXPIRED, K.POLL_INTERVAL_EXCEEDED} - {kind}:
        assert not is_true(finding(other), gone, K.MEMBER_JOINED)


def test_who_worked_too_long_as_planted_need_not_say_so_to_the_broker() -> None:
    gone = [Departed(NOW, K.MEMBER_LEFT, MEMBER)]
    assert is_true(finding(K.POLL_INTERVAL_EXCEEDED), gone, K.POLL_INTERVAL_EXCEEDED)
    assert not is_true(finding(K.POLL_INTERVAL_EXCEEDED), gone, K.MEMBER_LEFT)


def test_a_storm_is_one_if_a_client_is_gone_twice() -> None:
    gone = [Departed(NOW, K.MEMBER_EXPIRED, MEMBER)]
    assert not is_true(finding(K.STORM), gone, K.MEMBER_LEFT)
    again = Departed(NOW + 9, K.MEMBER_EXPIRED, MEMBER.replace("5", "6"))
    assert is_true(finding(K.STORM), [*gone, again], K.MEMBER_LEFT)
