"""Whose own metrics stand in the explanation of a group: those of its members, present and past."""

from uuid import UUID

import msgspec
import pytest

from kohort.broker.explain.events import Move, RebalanceReport, Waited
from kohort.broker.group.events import Cause, CauseKind
from kohort.broker.http.groups import describe_group
from kohort.broker.http.test_http import FakeView, a_group, a_report
from kohort.broker.telemetry.otlp import TEXT_MAX, Point, Resource
from kohort.broker.telemetry.reports import Report
from kohort.broker.telemetry.taking import ClientMetrics

GROUP_ID = "billing/eu"
POINT = Point("org.apache.kafka.consumer.poll.idle.ratio.avg", 0.5)
LEFT = Cause(CauseKind.MEMBER_LEFT, 1, "c-3", "three", client_host="/10.0.0.3")
REPORT = msgspec.structs.replace(
    a_report(),
    removed_member_ids=("c-4",),
    waited_for=(Waited("c-5", "five", 7, False),),
    moves=(Move("t", 0, "c-6", "c-7", 1), Move("t", 1, None, "c-1", 1)),
    cause=LEFT,
    further_causes=(
        Cause(CauseKind.TOPIC_METADATA_CHANGED, 1),
        Cause(CauseKind.MEMBER_EXPIRED, 1, "c-8", "eight"),
    ),
)


async def clients_told(*reports: Report, past: RebalanceReport = REPORT) -> list[str]:
    view = FakeView(taken=ClientMetrics(lambda: 5))
    assert view.taken is not None
    view.journals[GROUP_ID].keep(past)
    for number, each in enumerate(reports):
        labels = (("group_id", GROUP_ID), *each.labels.items())
        view.taken.reports.take(UUID(int=number), each, [Resource(labels, (POINT,))], 5, 1_000)
    group = a_group()
    group.members["c-1"].client_id = "c" * 300
    clients = (await describe_group(view, group, 5))["clients"]
    assert isinstance(clients, list)
    return [each.member_id or each.client_id for each in clients]


def report(member_id: str = "", client_id: str = "x", host: str = "10.9.9.9") -> Report:
    made = Report(client_id, host, "librdkafka 2.16")
    made.labels = {"group_member_id": member_id} if member_id else {}
    return made


@pytest.mark.parametrize("member_id", [f"c-{each}" for each in range(1, 9)])
async def test_members_are_told_by_their_ids_also_past_ones(member_id: str) -> None:
    assert await clients_told(report(member_id)) == [member_id]


async def test_members_that_tell_no_id_are_told_by_client_id_and_host() -> None:
    present = report(client_id="c" * 300, host="127.0.0.1")
    past = report(client_id="three", host="10.0.0.3")
    assert await clients_told(present, past) == ["c" * TEXT_MAX, "three"]


@pytest.mark.parametrize(
    "stranger",
    [
        report(),
        report("c-9"),
        report("c-9", "c"),
        report("", "c" * 300),
        report("", "three", "127.0.0.1"),
        report("", "", ""),
        report("", "", "127.0.0.1"),
        report("None"),
    ],
)
async def test_a_client_that_only_says_it_is_in_the_group_is_not_told(stranger: Report) -> None:
    assert await clients_told(stranger) == []
