"""An analysis as one HTML page that a person reads: nothing is loaded from anywhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from kohort.pipeline.analytics.arithmetic import duration, time_to_drain
from kohort.pipeline.analytics.job import Analysis
from kohort.pipeline.analytics.plots import Bar, Line, bar_plot, clock, date_and_clock, line_plot, short
from kohort.protocol.verdict import Verdict, worst

if TYPE_CHECKING:
    from pyspark.sql import Row

PACKAGE, TEMPLATE = "kohort.pipeline.analytics", "report.html.jinja"
GROUPS_DRAWN = 20
"""The worst of them have plots; all of them have a row."""
PARTITIONS_LISTED, REBALANCES_LISTED = 50, 30
COUNTS_NAMED = 5

VERDICTS = {
    Verdict.OK: "The lag is nothing, or it goes away.",
    Verdict.WARN: "It reads, but the lag did not shrink once in its last commits: it is too slow.",
    Verdict.STALL: "It commits the same offset over and over, and there is more to read.",
    Verdict.STOP: "It commits no more, and there is more to read.",
    Verdict.REWIND: "It went back to an earlier offset, and has not caught up with where it was.",
}
"""The verdicts and the times to drain are computed from the last ten commits of each partition."""


def write_page(found: Analysis, path: Path) -> Path:
    """Write the report and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(found), encoding="utf-8")
    return path


def page(found: Analysis) -> str:
    """Return the report as HTML."""
    standings: dict[str, list[Row]] = defaultdict(list)
    for row in found.standings.orderBy("group_id", "topic", "partition").collect():
        standings[row["group_id"]].append(row)
    names = sorted(standings, key=lambda name: _badness(standings[name]), reverse=True)
    still = {row["group_id"]: row for row in found.still.collect()}
    return template().render(
        from_ms=found.from_ms,
        to_ms=found.to_ms,
        groups=[_overview(name, standings[name], still.get(name)) for name in names],
        verdicts=[(verdict.value, meaning) for verdict, meaning in VERDICTS.items()],
        storms=found.storms.collect(),
        moves=found.moves.where("moves > 0").limit(PARTITIONS_LISTED).collect(),
        drawn=[_drawn(name, standings[name], found) for name in names[:GROUPS_DRAWN]],
    )


@cache
def template() -> Template:
    """Return the page's template: everything except the plots is escaped, and an unknown name fails."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "clock": clock,
        "counted": counted,
        "date": date_and_clock,
        "drained": _drained,
        "duration": duration,
        "number": "{:,}".format,
        "rate": _rate,
    }
    return environment.from_string(files(PACKAGE).joinpath(TEMPLATE).read_text(encoding="utf-8"))


def _badness(rows: Sequence[Row]) -> tuple[int, int]:
    verdict = worst(*(Verdict(row["verdict"]) for row in rows))
    return list(Verdict).index(verdict), sum(row["lag"] for row in rows)


def _anchor(name: str) -> str:
    return "group-" + quote(name, safe="")


def _overview(name: str, rows: Sequence[Row], still: Row | None) -> dict[str, object]:
    """Return a group's row: sums over its partitions, and the time that the slowest of them takes."""
    times = [row["drain_seconds"] for row in rows]
    return {
        "name": name,
        "anchor": _anchor(name),
        "verdict": worst(*(Verdict(row["verdict"]) for row in rows)).value,
        "lag": sum(row["lag"] for row in rows),
        "consumed_per_s": _sum(rows, "consumed_per_s"),
        "produced_per_s": _sum(rows, "produced_per_s"),
        "drain_seconds": None if None in times else max(times, default=0.0),
        "still": still,
    }


def _drawn(name: str, rows: Sequence[Row], found: Analysis) -> dict[str, object]:
    """Return a group's section: its plots, its partitions and its rebalances."""
    lag = found.lag.where(found.lag.group_id == name)
    sums = (
        lag.groupBy("at_ms")
        .agg({"lag": "sum", "consumed_per_s": "sum", "produced_per_s": "sum"})
        .orderBy("at_ms")
    ).collect()
    lags = Line("records behind", [(row["at_ms"], row["sum(lag)"]) for row in sums])
    paces = [
        Line(text, [(row["at_ms"], max(row[column], 0.0)) for row in sums if row[column] is not None])
        for text, column in (("read", "sum(consumed_per_s)"), ("written", "sum(produced_per_s)"))
    ]
    told = found.rebalances.where(found.rebalances.group_id == name).orderBy("started_ms").collect()
    return {
        "name": name,
        "anchor": _anchor(name),
        "lag_plot": Markup(line_plot([lags], found.from_ms, found.to_ms, "records")),
        "pace_plot": Markup(line_plot(paces, found.from_ms, found.to_ms, "records/s")),
        "partitions": sorted(rows, key=lambda row: -row["lag"])[:PARTITIONS_LISTED],
        "rebalances": told[-REBALANCES_LISTED:],
        "rebalance_plot": Markup(_bars(told, found)),
        "span_ms": found.to_ms - told[0]["started_ms"] if told else 0,
    }


def _bars(told: Sequence[Row], found: Analysis) -> str:
    bars = [
        Bar(row["started_ms"], row["started_ms"] + row["still_ms"], row["cause"]["kind"], _says(row))
        for row in told
        if row["started_ms"] >= found.from_ms
    ]
    return bar_plot(bars, found.from_ms, found.to_ms) if bars else ""


def _says(row: Row) -> str:
    return (
        f"{clock(row['started_ms'])}: {row['cause']['kind']}, stood still {duration(row['still_ms'] / 1000)}"
    )


def counted(counts: dict[str, int]) -> str:
    """Return the names that occur most, each with how often."""
    most = sorted(counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} ({count})" for name, count in most[:COUNTS_NAMED])


def _drained(seconds: float | None, verdict: str, consumed_per_s: float | None) -> str:
    return time_to_drain(seconds, Verdict(verdict), has_pace=consumed_per_s is not None)


def _sum(rows: Sequence[Row], column: str) -> float | None:
    """Return a sum over the partitions of which it is known, None where it is known of none."""
    known = [row[column] for row in rows if row[column] is not None]
    return sum(known) if known else None


def _rate(value: float | None) -> str:
    return "" if value is None else short(max(value, 0.0))
