"""`kohort groups explain`: why a group rebalanced, what that cost, and what to change."""

import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import click
import msgspec

from kohort.broker.explain.advice import Advice, advice_of, advise, same_instance
from kohort.broker.explain.digest import digest, of_reports
from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.explanation import explanation, fail_overs
from kohort.broker.explain.history import REBALANCES_KEPT
from kohort.broker.explain.story import began, still_missing, story
from kohort.broker.explain.timeline import OngoingRebalance, Timeline
from kohort.broker.group.events import GroupLoaded, RebalanceStarted
from kohort.broker.telemetry.evidence import ClientEvidence
from kohort.cli.client_settings import with_settings
from kohort.cli.completion import complete_groups
from kohort.cli.explain_clients import client_lines, clients_of_body, said_of
from kohort.cli.explain_source import EventReader, is_observed, timeline_of_body
from kohort.cli.http_source import group_json, http_option, share_group_jsons
from kohort.cli.options import API_TIMEOUT_MS, bootstrap_option, json_option, open_admin, require_broker
from kohort.cli.output import print_encoded, print_line
from kohort.cli.since import Since
from kohort.client import BrokerError, Consumer
from kohort.client.config import ConsumerOptions
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.cli.explain_observed import ObservedTelling
    from kohort.cli.explain_share import ShareTelling

SHARE = "share"
REBALANCING = {"PreparingRebalance", "CompletingRebalance"}
REMIND_SECONDS = 5.0
HTTP_LOOK_SECONDS = 1.0


@click.command()
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--last",
    "-n",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="How many rebalances; of a share group 20 events at least, for each partition.",
)
@click.option(
    "--since",
    type=Since(),
    metavar="TIME",
    help="All since then in one page: 03:00 (the last one), 2026-11-27T03:00, or so long ago: 2h, 1d.",
)
@click.option(
    "--follow",
    "-f",
    is_flag=True,
    help="Keep printing new rebalances, or new events of records, until Ctrl-C.",
)
@http_option(
    "Ask any broker of the cluster over HTTP: what brokers have in memory; several, by commas, if one is "
    "down. Or ask kohort observe, of any Kafka. Without it __group_events is read.",
    None,
)
@json_option
@bootstrap_option
def explain(
    *,
    group_id: str,
    last: int,
    since: int | None,
    follow: bool,
    http: str | None,
    as_json: bool,
    servers: str,
) -> None:
    """Explain why GROUP rebalanced: cause, waits, moved partitions, pauses, and what to change.

    \b
    kohort groups explain billing
    kohort groups explain billing --follow
    kohort groups explain billing --since 03:00

    Of a share group, with --http: who holds which records, what came back and why, what waits.
    """
    telling = _Telling(group_id, as_json=as_json, since_ms=since)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if http is None:
            _from_events(telling, servers, last, follow=follow)
        else:
            _over_http(telling, http, last, follow=follow)
    except KeyboardInterrupt:
        if not follow:
            raise  # With --follow that is how one ends it.


def _over_http(telling: "_Telling", http: str, last: int, *, follow: bool) -> None:
    if bodies := share_group_jsons(http, telling.group_id):
        from kohort.cli.explain_share import ShareTelling  # Others don't pay for it.

        shared = ShareTelling(telling.group_id, as_json=telling.as_json)
        shared.all(bodies, last, _now_ms())
        look = partial(_look_at_shares, shared, http)
    else:
        body = group_json(http, telling.group_id)
        if is_observed(body):
            from kohort.cli.explain_observed import (  # Others don't pay for it.
                ObservedTelling,
                answer_of,
                read_since,
            )

            observed = ObservedTelling(telling.group_id, as_json=telling.as_json, since_ms=telling.since_ms)
            if telling.since_ms is None:
                observed.all(answer_of(body), last)
            else:
                observed.all(read_since(partial(group_json, http, telling.group_id), telling.since_ms), last)
            look = partial(_look_at_observed, observed, http)
        else:
            telling.is_of_memory = True
            telling.clients = clients_of_body(body)
            telling.all(timeline_of_body(body), last)
            look = partial(_look_at_rebalances, telling, http)
    while follow:
        time.sleep(HTTP_LOOK_SECONDS)  # HTTP has no way to be told: it is asked again and again.
        look()


def _look_at_shares(shared: "ShareTelling", http: str) -> None:
    shared.news(share_group_jsons(http, shared.group_id), _now_ms())


def _look_at_observed(observed: "ObservedTelling", http: str) -> None:
    observed.news(group_json(http, observed.group_id))


def _look_at_rebalances(telling: "_Telling", http: str) -> None:
    body = group_json(http, telling.group_id)
    telling.clients = clients_of_body(body)
    telling.news(timeline_of_body(body))


def _from_events(telling: "_Telling", servers: str, last: int, *, follow: bool) -> None:
    with Consumer(**_options(servers)) as consumer:
        reader = EventReader(consumer, telling.group_id)
        timeline = reader.read_back(last) if telling.since_ms is None else reader.read_since(telling.since_ms)
        if timeline.ongoing is not None and not _is_rebalancing(servers, telling.group_id):
            timeline.ongoing = None  # The broker was stopped in the middle of it.
        if not timeline.reports and not timeline.fail_overs and timeline.ongoing is None:
            _check_that_it_exists(servers, telling.group_id)
        telling.all(timeline, last)
        while follow:
            for event in reader.more():
                timeline.add(event)
                if isinstance(event, RebalanceStarted):
                    telling.begins(timeline.ongoing)
                elif isinstance(event, GroupLoaded) and event.is_fail_over:
                    telling.taken_over(event)
            telling.news(timeline)


def _options(servers: str) -> ConsumerOptions:
    options: ConsumerOptions = {
        "bootstrap_servers": require_broker(servers),
        "client_id": "kohort-cli",
        "default_api_timeout_ms": API_TIMEOUT_MS,
        "allow_auto_create_topics": False,
    }
    return with_settings(options)


def _is_rebalancing(servers: str, group_id: str) -> bool:
    try:
        with open_admin(servers) as admin:
            return admin.describe_groups(group_id)[group_id].state in REBALANCING
    except BrokerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise


def _check_that_it_exists(servers: str, group_id: str) -> None:
    """Return if there is such a group. Raises: BrokerError."""
    try:
        with open_admin(servers) as admin:
            is_shared = admin.describe_groups(group_id)[group_id].type == SHARE
    except BrokerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise BrokerError(error.code, f"Group {group_id} not found.") from None
        raise
    if is_shared:
        raise click.ClickException(
            f"{group_id} is a share group: what becomes of its records brokers tell over HTTP alone "
            f"(kohort groups explain {group_id} --http HOST:PORT)"
        )


class _Telling:
    """What was told already, and in which form."""

    def __init__(self, group_id: str, *, as_json: bool, since_ms: int | None = None) -> None:
        self.group_id = group_id
        self.as_json = as_json
        self.since_ms = since_ms
        self.clients: tuple[ClientEvidence, ...] = ()
        self.is_of_memory = False  # A broker keeps the newest rebalances of each group there.
        self._last_shown = (-1, -1)  # When the newest rebalance ended that was told, and its generation.
        self._reminded = time.monotonic()

    def all(self, timeline: Timeline, last: int) -> None:
        """Tell the last rebalances, and the one in progress."""
        if self.as_json:
            print_encoded(msgspec.json.encode(self._as_object(timeline, last)))
        elif self.since_ms is not None:
            self._print(self._page(timeline, self.since_ms))
        else:
            self._print(explanation(self.group_id, timeline, last, _now_ms(), self._said))
        if not self.as_json and self.clients:
            self._print(client_lines(self.clients, _now_ms()))
        if timeline.reports:
            self._last_shown = _place_of(timeline.reports[-1])

    def _page(self, timeline: Timeline, since_ms: int) -> Iterator[str]:
        """Yield all that has happened since a time, in one page."""
        told = [each for each in advice_of(timeline.reports) if each[0].started_ms >= since_ms]
        yield from digest(self.group_id, of_reports(told), since_ms)
        if len(told) == timeline.reports.maxlen or (self.is_of_memory and len(told) >= REBALANCES_KEPT):
            yield f"Older rebalances than these {len(told)} are not told{self._older_words()}."
        if timeline.ongoing is not None:
            yield from began(timeline.ongoing)
            yield from still_missing(timeline.ongoing, _now_ms())

    def _said(self, report: RebalanceReport) -> list[str]:
        return said_of(report, self.clients)

    def _report_object(self, report: RebalanceReport, advice: tuple[Advice, ...]) -> dict[str, object]:
        return {**msgspec.structs.asdict(report), "advice": advice, "clients_say": self._said(report)}

    def _older_words(self) -> str:
        return (
            ": the broker has no more in memory, but without --http all are read" if self.is_of_memory else ""
        )

    def _as_object(self, timeline: Timeline, last: int) -> dict[str, object]:
        ongoing = timeline.ongoing
        told, moves = advice_of(timeline.reports), list(timeline.fail_overs)
        if self.since_ms is None:
            told, moves = told[-last:], moves[-last:]
        else:
            told = [each for each in told if each[0].started_ms >= self.since_ms]
            moves = [each for each in moves if each.at_ms >= self.since_ms]
        return {
            "group_id": self.group_id,
            "rebalances": [self._report_object(report, advice) for report, advice in told],
            "fail_overs": moves,
            "ongoing": None if ongoing is None else _ongoing_object(ongoing),
            "advice": same_instance(timeline.fenced),
            "clients": self.clients,
        }

    def begins(self, ongoing: OngoingRebalance | None) -> None:
        """Tell that a rebalance has begun."""
        self._reminded = time.monotonic()
        if ongoing is not None and not self.as_json:
            self._print(began(ongoing))

    def taken_over(self, event: GroupLoaded) -> None:
        """Tell that another broker coordinates the group."""
        if self.as_json:
            print_encoded(msgspec.json.encode(event))
        else:
            self._print(fail_overs([event]))

    def news(self, timeline: Timeline) -> None:
        """Tell the rebalances that are over since the last time, and now and then who is missing."""
        reports = list(timeline.reports)
        for place, report in enumerate(reports):
            if _place_of(report) > self._last_shown:
                self._last_shown = _place_of(report)
                advice = advise(report, reports[:place])
                if self.as_json:
                    print_encoded(msgspec.json.encode(self._report_object(report, advice)))
                else:
                    self._print([*story(report, advice, self._said(report)), ""])
        ongoing = timeline.ongoing
        if ongoing is not None and time.monotonic() - self._reminded >= REMIND_SECONDS:
            self._reminded = time.monotonic()
            if not self.as_json:
                self._print(still_missing(ongoing, _now_ms()))

    def _print(self, lines: list[str] | Iterator[str]) -> None:
        for line in lines:
            print_line(line)
        sys.stdout.flush()


def _place_of(report: RebalanceReport) -> tuple[int, int]:
    return report.started_ms + report.still_ms, report.generation_id


def _ongoing_object(ongoing: OngoingRebalance) -> dict[str, object]:
    return {
        "cause": ongoing.cause,
        "started_ms": ongoing.started_ms,
        "is_assigning": ongoing.is_assigning,
        "missing": [{"member_id": each, "since_ms": since} for each, since in ongoing.missing.items()],
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
