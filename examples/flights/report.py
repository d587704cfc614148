"""The tables that the demo ends with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from examples.flights import settings
from examples.flights.dataset import MeanDelays
from examples.flights.history import Rebalance
from examples.flights.journal import Event
from examples.flights.ledger import Ledger, Verdict
from examples.flights.members import MemberProcess

SHOWN_MISSING = 10


def members_table(ledger: Ledger, members: Iterable[MemberProcess], events: Sequence[Event]) -> Table:
    """Return who read how many flights, and how often its partitions changed."""
    table = Table(title="Flights read per member", title_justify="left")
    table.add_column("member")
    table.add_column("flights read", justify="right")
    table.add_column("assignments", justify="right")
    table.add_column("failed commits", justify="right")
    table.add_column("end")
    for member in members:
        own = [event.what for event in events if event.member == member.client]
        table.add_row(
            member.client,
            f"{ledger.by_member[member.client]:,}",
            str(own.count("assigned")),
            str(own.count("commit failed")),
            "[red]SIGKILL half way[/]" if member.killed else "left the group",
        )
    return table


def rebalances_table(rebalances: Iterable[Rebalance], began_at_s: float) -> Table:
    """Return the broker's own account of the group's rebalances."""
    table = Table(title="Rebalances, as the broker explains them", title_justify="left")
    for heading in ("second", "generation", "cause", "members", "moved", "waited longest for", "stood still"):
        table.add_column(heading, justify="left" if heading in ("cause", "waited longest for") else "right")
    for each in rebalances:
        table.add_row(*each.cells(began_at_s))
    return table


def events_table(events: Iterable[Event], began_at_s: float) -> Table:
    """Return what the members saw of the group."""
    table = Table(title="What the members saw", title_justify="left")
    for heading in ("second", "member", "event", "partitions"):
        table.add_column(heading, justify="right" if heading == "second" else "left")
    for event in events:
        partitions = ", ".join(map(str, event.partitions)) or event.detail[:60]
        table.add_row(f"{event.at_s - began_at_s:.1f}", event.member, event.what, partitions)
    return table


def carriers_table(ledger: Ledger, truth: Mapping[str, MeanDelays], names: Mapping[str, str]) -> Table:
    """Return the mean delays of the counted flights beside those of the data frame."""
    table = Table(title="Mean delay per carrier, in minutes", title_justify="left")
    table.add_column("carrier")
    for heading in ("flights", "departure", "data frame", "arrival", "data frame"):
        table.add_column(heading, justify="right")
    for carrier, expected in sorted(truth.items(), key=lambda item: -item[1].flights):
        tally = ledger.carriers.get(carrier)
        departure = f"{tally.departure.value:.2f}" if tally else "-"
        arrival = f"{tally.arrival.value:.2f}" if tally else "-"
        table.add_row(
            f"{carrier} {names.get(carrier, '')}",
            f"{tally.flights if tally else 0:,}",
            departure,
            f"{expected.departure:.2f}",
            arrival,
            f"{expected.arrival:.2f}",
        )
    return table


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return the proof in words: how many flights, how many lost, how many read twice."""
    counted = verdict.expected - len(verdict.missing)
    lines = [
        f"{counted:,} of {verdict.expected:,} flights were counted, "
        f"{len(verdict.missing):,} lost, {verdict.read_twice:,} read twice."
    ]
    if verdict.read_twice:
        lines.append(
            f"Read twice are the flights that the killed member had read and not yet committed: it commits"
            f" every {settings.BATCH_RECORDS:,}. Each of them is counted once."
        )
    if verdict.missing:
        shown = ", ".join(map(str, verdict.missing[:SHOWN_MISSING]))
        more = ", ..." if len(verdict.missing) > SHOWN_MISSING else ""
        lines.append(f"Missing flights: {shown}{more}")
    if verdict.wrong_means:
        lines.append("Means differ from the data frame's for: " + ", ".join(verdict.wrong_means))
    return lines
