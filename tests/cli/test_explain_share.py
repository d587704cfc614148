"""What `kohort groups explain` says of a share group, word for word but for the local time."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import click
import msgspec
import pytest

from kohort.broker.explain.share_groups import (
    GroupExplained,
    Happened,
    Held,
    HoldUp,
    HoldUpKind,
    PartitionExplained,
    ShareGroupExplained,
)
from kohort.broker.explain.story import clock_time
from kohort.broker.group.share.delivery_events import Outcome, Reason
from kohort.cli.explain_share import HELD_TOLD, ShareTelling, lines, merged
from kohort.cli.http_source import share_group_jsons

AT_MS = 1_700_000_000_000
STABLE = GroupExplained(state="Stable", epoch=5, assignment_epoch=5, members=2, hold_ups=())
A = "worker-a-11111111-0000-0000-0000-000000000000"
AT = clock_time(AT_MS)


def told(*partitions: PartitionExplained, group: GroupExplained | None = None) -> list[str]:
    explained = ShareGroupExplained(group_id="workers", broker_id=3, group=group, partitions=partitions)
    return list(lines([explained], 20, AT_MS))


def a_partition(
    *happened: Happened, held: tuple[Held, ...] = (), start_offset: int | None = 4
) -> PartitionExplained:
    return PartitionExplained(
        topic="jobs",
        partition=0,
        start_offset=start_offset,
        end_offset=None if start_offset is None else 90,
        held_records=sum(each.last_offset + 1 - each.first_offset for each in held),
        again_records=2,
        letter_records=1,
        held=held,
        happened=happened,
    )


def delivery_event(outcome: Outcome, reason: Reason | None, first: int, last: int) -> Happened:
    return Happened(AT_MS, outcome, reason, A, 2, first, last)


def test_a_blocked_delivery_is_explained_with_its_cause() -> None:
    hold_ups = (
        HoldUp(HoldUpKind.NO_STATE_YET, "jobs", (0, 1)),
        HoldUp(HoldUpKind.NO_SUCH_TOPIC, "mail"),
        HoldUp(HoldUpKind.NOT_ASSIGNED_YET),
        HoldUp(HoldUpKind.MEMBER_BEHIND, member_id=A, last_seen_ms=AT_MS - 12_000),
        HoldUp(HoldUpKind.NOTHING_FOR_MEMBER, member_id=A),
    )
    group = GroupExplained(state="Stable", epoch=5, assignment_epoch=4, members=2, hold_ups=hold_ups)
    assert told(group=group) == [
        "workers: Stable, 2 members, epoch 5, assigned in epoch 4.",
        "  Held back: jobs 0, 1: nobody is given what the share coordinator keeps no state of yet.",
        "  Held back: mail: there is no such topic.",
        "  Held back: epoch 5 has no assignment yet, the last one is of epoch 4.",
        "  Held back: worker-a-11111111 has not come to epoch 4 yet, last heard of 12 s ago.",
        "  Held back: worker-a-11111111 has no partition.",
        "Nobody has read anything of late that broker 3 leads.",
    ]


def test_each_delivery_event_has_a_text() -> None:
    again = Outcome.COMES_AGAIN
    found = told(
        a_partition(
            delivery_event(again, Reason.RELEASED, 4, 4),
            delivery_event(again, Reason.LOCK_ENDED, 5, 6),
            delivery_event(again, Reason.SESSION_CLOSED, 7, 7),
            delivery_event(Outcome.WAITS_FOR_DEAD_LETTER, Reason.CONNECTION_LOST, 8, 8),
            delivery_event(Outcome.GIVEN_UP, Reason.REJECTED, 9, 9),
            delivery_event(Outcome.DEAD_LETTER, None, 8, 8),
            delivery_event(Outcome.NO_DEAD_LETTER, None, 9, 9),
        )
    )
    who = "worker-a-11111111"
    assert found == [
        "workers: broker 3 does not coordinate this group; ask another broker.",
        "",
        "jobs 0: from offset 4 up to 90; 0 held, 2 to be handed out again, 1 without the dead letter due.",
        f"  {AT}  offset 4: {who} gave it back, delivery 2: it comes again",
        f"  {AT}  offsets 5-6: {who} had them for longer than its lock lasts, delivery 2: they come again",
        f"  {AT}  offset 7: {who} closed its session, delivery 2: it comes again",
        f"  {AT}  offset 8: the connection of {who} ended, delivery 2: given up, a dead letter is due",
        f"  {AT}  offset 9: {who} rejected it, delivery 2: given up",
        f"  {AT}  offset 8: the dead letter is written",
        f"  {AT}  offset 9: given up without a dead letter: the broker's log says why",
    ]


def test_only_the_first_acquired_runs_and_the_last_events_are_shown() -> None:
    held = tuple(
        Held(2 * number, 2 * number, A, 1, AT_MS - 12_000, AT_MS + (18_000 if number else 0))
        for number in range(HELD_TOLD + 3)
    )
    found = told(
        a_partition(
            *(delivery_event(Outcome.GIVEN_UP, Reason.REJECTED, each, each) for each in range(30)), held=held
        )
    )
    assert found[3] == "  offset 0: held by worker-a-11111111 for 12 s, its time is up, delivery 1"
    assert found[4] == "  offset 2: held by worker-a-11111111 for 12 s, for 18 s more, delivery 1"
    assert found[3 + HELD_TOLD] == "  and 3 records more"
    assert len(found[4 + HELD_TOLD :]) == 20
    assert "offset 29:" in found[-1]


def test_a_partition_without_readers_is_explained_by_its_past() -> None:
    found = told(a_partition(delivery_event(Outcome.COMES_AGAIN, Reason.RELEASED, 4, 4), start_offset=None))
    assert found[2:] == [
        "jobs 0: nobody reads it now.",
        f"  {AT}  offset 4: worker-a-11111111 gave it back, delivery 2: it comes again",
    ]


@contextmanager
def brokers(*pages: list[ShareGroupExplained]) -> Iterator[str]:
    """Where brokers answer, each with its pages one after another, then with the last again and again."""
    servers = []
    for told in pages:
        left = list(told)

        class Handler(BaseHTTPRequestHandler):
            told = left

            def do_GET(self) -> None:  # As http.server calls it.
                here = self.told
                body = msgspec.json.encode(here.pop(0) if len(here) > 1 else here[0]) if here else b""
                self.send_response(200 if body else 404)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
    try:
        yield ",".join(f"127.0.0.1:{each.server_port}" for each in servers)
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def of_broker(
    broker_id: int, *partitions: PartitionExplained, group: GroupExplained | None = None
) -> ShareGroupExplained:
    return ShareGroupExplained(group_id="workers", broker_id=broker_id, group=group, partitions=partitions)


def test_answers_of_several_brokers_are_merged(capsys: pytest.CaptureFixture[str]) -> None:
    other = msgspec.structs.replace(a_partition(), partition=1)
    with brokers([of_broker(1, other)], [], [of_broker(2, a_partition(), group=STABLE)]) as http:
        ShareTelling("workers", as_json=False).all(share_group_jsons(http, "workers"), 3, AT_MS)
        ShareTelling("workers", as_json=True).all(share_group_jsons(http, "workers"), 3, AT_MS)
    text = capsys.readouterr().out.splitlines()
    assert text[0] == "workers: Stable, 2 members, epoch 5, assigned in epoch 5."
    assert [line[:8] for line in text if line.startswith("jobs ")] == ["jobs 0: ", "jobs 1: "]
    whole = json.loads(text[-1])
    assert ([each["partition"] for each in whole["partitions"]], whole["group"]["epoch"]) == ([0, 1], 5)
    assert merged([of_broker(1, other)]).partitions == (other,)


def test_a_broker_that_is_down_does_not_hide_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    with brokers([of_broker(1, a_partition())]) as http:
        told = share_group_jsons(f"127.0.0.1:1,{http}", "workers")
    ShareTelling("workers", as_json=False).all(told, 3, AT_MS)
    assert capsys.readouterr().out.startswith(
        "workers: broker 1 does not coordinate this group; ask another broker."
    )


def test_an_unknown_share_group_is_not_found() -> None:
    with brokers([], []) as http, pytest.raises(click.ClickException, match="Group workers not found"):
        ShareTelling("workers", as_json=False).all(share_group_jsons(http, "workers"), 3, AT_MS)


def test_later_events_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    first = delivery_event(Outcome.COMES_AGAIN, Reason.RELEASED, 4, 4)
    second = delivery_event(Outcome.GIVEN_UP, Reason.REJECTED, 5, 5)
    held_back = msgspec.structs.replace(STABLE, hold_ups=(HoldUp(HoldUpKind.NO_SUCH_TOPIC, "mail"),))
    pages = [
        of_broker(1, a_partition(first), group=STABLE),
        of_broker(1, a_partition(first, second), group=STABLE),
        of_broker(1, a_partition(first, second), group=held_back),
    ]
    with brokers(pages) as http:
        telling = ShareTelling("workers", as_json=False)
        telling.all(share_group_jsons(http, "workers"), 3, AT_MS)
        assert "rejected" not in capsys.readouterr().out
        telling.news(share_group_jsons(http, "workers"), AT_MS)
        assert capsys.readouterr().out == (
            f"jobs 0: {AT}  offset 5: worker-a-11111111 rejected it, delivery 2: given up\n"
        )
        telling.news(share_group_jsons(http, "workers"), AT_MS)
        telling.news(share_group_jsons(http, "workers"), AT_MS)
        assert capsys.readouterr().out == "  Held back: mail: there is no such topic.\n"


def test_news_as_json_is_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    later = a_partition(delivery_event(Outcome.DEAD_LETTER, None, 8, 9))
    with brokers([of_broker(1, a_partition(), group=STABLE), of_broker(1, later, group=STABLE)]) as http:
        telling = ShareTelling("workers", as_json=True)
        telling.all(share_group_jsons(http, "workers"), 3, AT_MS)
        telling.news(share_group_jsons(http, "workers"), AT_MS)
    _, line = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert (found["topic"], found["partition"], found["first_offset"], found["outcome"]) == (
        "jobs",
        0,
        8,
        "dead_letter",
    )
