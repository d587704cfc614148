"""An analysis as one HTML page that a person reads: nothing is loaded from anywhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from kohort.pipeline.analytics.job import Analysis
from kohort.pipeline.analytics.plots import Bar, Line, bar_plot, clock, date_and_clock, line_plot, short
from kohort.protocol.verdict import Verdict, worst

if TYPE_CHECKING:
    from pyspark.sql import Row

GROUPS_DRAWN = 20
"""The worst of them have plots; all of them have a row."""
PARTITIONS_LISTED, REBALANCES_LISTED = 50, 30

NEVER = "never"
VERDICTS = {
    Verdict.OK: "The lag is nothing, or it goes away.",
    Verdict.WARN: "It reads, but the lag did not shrink once in its last commits: it is too slow.",
    Verdict.STALL: "It commits the same offset over and over, and there is more to read.",
    Verdict.STOP: "It commits no more, and there is more to read.",
    Verdict.REWIND: "It went back to an earlier offset, and has not caught up with where it was.",
}
"""The verdicts and the times to drain are told from each partition's last ten commits."""

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
h3 { margin-bottom: .3rem; } p.soft { opacity: .7; margin-top: .2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line); }
th, td { white-space: nowrap; } th { font-weight: 600; }
.text { text-align: left; } td.text { white-space: normal; overflow-wrap: break-word; }
a { color: inherit; } dl { font-size: 13px; opacity: .8; } dt { float: left; clear: left; width: 4.5rem; }
dd { margin-left: 4.5rem; }
.wide { overflow-x: auto; }
svg { display: block; width: 100%; min-width: 40rem; height: auto; }
svg { background: var(--soft); border-radius: 6px; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; } svg .unit { opacity: .7; }
svg .grid { stroke: var(--line); stroke-width: .6; }
.legend { font-size: 13px; margin: .2rem 0 1rem; }
.legend span { margin-right: 1.2rem; white-space: nowrap; }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
.v { font-weight: 600; padding: 0 .5em; border-radius: 4px; color: #fff; background: #059669; }
.v.WARN { background: #ca8a04; } .v.STALL, .v.STOP { background: #dc2626; } .v.REWIND { background: #9333ea; }
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A table's cell: text, or markup that was made here."""

    text: str
    is_markup: bool = False
    is_text: bool = False


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
    storms = found.storms.collect()
    names = sorted(standings, key=lambda name: _badness(standings[name]), reverse=True)
    span = f"{date_and_clock(found.from_ms)} to {date_and_clock(found.to_ms)}, all times in UTC"
    parts = [
        "<h1>Consumer groups</h1>",
        f'<p class="soft">{span}</p>',
        _overview(names, standings, found),
        _storm_table(storms),
        _moves_table(found.moves.where("moves > 0").limit(PARTITIONS_LISTED).collect()),
        *(_group_section(name, standings[name], found) for name in names[:GROUPS_DRAWN]),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Consumer groups</title>'
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def _badness(rows: Sequence[Row]) -> tuple[int, int]:
    verdict = worst(*(Verdict(row["verdict"]) for row in rows))
    return list(Verdict).index(verdict), sum(row["lag"] for row in rows)


def _overview(names: Sequence[str], standings: dict[str, list[Row]], found: Analysis) -> str:
    still = {row["group_id"]: row for row in found.still.collect()}
    lines = []
    for name in names:
        rows = standings[name]
        verdict = worst(*(Verdict(row["verdict"]) for row in rows))
        rest = still.get(name)
        lines.append(
            [
                _link(name),
                _verdict(verdict.value),
                Cell(f"{sum(row['lag'] for row in rows):,}"),
                Cell(_rate(sum(row["consumed_per_s"] or 0 for row in rows))),
                Cell(_rate(sum(row["produced_per_s"] or 0 for row in rows))),
                Cell(_drain_of(rows)),
                Cell("" if rest is None else f"{rest['rebalances']:,}"),
                Cell("" if rest is None else _seconds(rest["still_ms"] / 1000)),
            ]
        )
    head = ("group", "verdict", "lag", "read/s", "written/s", "drained in", "rebalances", "stood still")
    return _table(head, lines) + _verdicts_explained()


def _link(name: str) -> Cell:
    return Cell(f'<a href="#{_anchor(name)}">{escape(name)}</a>', is_markup=True, is_text=True)


def _anchor(name: str) -> str:
    return "group-" + quote(name, safe="")


def _verdicts_explained() -> str:
    items = "".join(f"<dt>{verdict.value}</dt><dd>{text}</dd>" for verdict, text in VERDICTS.items())
    return f"<dl>{items}</dl>"


def _drain_of(rows: Sequence[Row]) -> str:
    """Return how long the slowest of its partitions takes."""
    times = [row["drain_seconds"] for row in rows]
    return NEVER if None in times else _seconds(max(times, default=0.0))


def _storm_table(storms: Sequence[Row]) -> str:
    lines = [
        [
            Cell(row["group_id"], is_text=True),
            Cell(date_and_clock(row["started_ms"])),
            Cell(_seconds((row["ended_ms"] - row["started_ms"]) / 1000)),
            Cell(f"{row['rebalances']}"),
            Cell(f"{row['still_share']:.0%}"),
            Cell(_counted(row["causes"]), is_text=True),
            Cell(_counted(row["clients"]), is_text=True),
        ]
        for row in storms
    ]
    head = ("group", "began", "lasted", "rebalances", "stood still", "causes", "begun by")
    empty = '<p class="soft">None: no group rebalanced again before it had come to rest.</p>'
    return "<h2>Rebalance storms</h2>" + (_table(head, lines) if lines else empty)


def _counted(counts: dict[str, int]) -> str:
    most = sorted(counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} ({count})" for name, count in most[:5])


def _moves_table(moves: Sequence[Row]) -> str:
    if not moves:
        return ""
    lines = [
        [
            Cell(row["group_id"], is_text=True),
            Cell(f"{row['topic']}-{row['partition']}", is_text=True),
            Cell(f"{row['moves']:,}"),
            Cell(f"{row['moves_per_hour']:.1f}"),
            Cell(_seconds(row["still_ms"] / 1000)),
            Cell("too often" if row["too_often"] else ""),
        ]
        for row in moves
    ]
    head = ("group", "partition", "moves", "an hour", "unread for", "")
    return "<h2>Partitions that moved</h2>" + _table(head, lines)


def _group_section(name: str, rows: Sequence[Row], found: Analysis) -> str:
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
    return "".join(
        (
            f'<h2 id="{_anchor(name)}">{escape(name)}</h2>',
            "<h3>Lag</h3>" + line_plot([lags], found.from_ms, found.to_ms, "records"),
            "<h3>Throughput</h3>" + line_plot(paces, found.from_ms, found.to_ms, "records/s"),
            _partition_table(rows),
            _rebalance_section(told, found),
        )
    )


def _partition_table(rows: Sequence[Row]) -> str:
    lines = [
        [
            Cell(f"{row['topic']}-{row['partition']}", is_text=True),
            _verdict(row["verdict"]),
            Cell(f"{row['committed_offset']:,}"),
            Cell(f"{row['end_offset']:,}"),
            Cell(f"{row['lag']:,}"),
            Cell(_rate(row["consumed_per_s"])),
            Cell(NEVER if row["drain_seconds"] is None else _seconds(row["drain_seconds"])),
        ]
        for row in sorted(rows, key=lambda row: -row["lag"])[:PARTITIONS_LISTED]
    ]
    return _table(("partition", "verdict", "committed", "end", "lag", "read/s", "drained in"), lines)


def _rebalance_section(told: Sequence[Row], found: Analysis) -> str:
    if not told:
        return ""
    bars = [
        Bar(row["started_ms"], row["started_ms"] + row["still_ms"], row["cause"]["kind"], _says(row))
        for row in told
        if row["started_ms"] >= found.from_ms
    ]
    lines = [
        [
            Cell(clock(row["started_ms"], found.to_ms - told[0]["started_ms"])),
            Cell(f"{row['generation_id']}"),
            Cell(row["cause"]["kind"], is_text=True),
            Cell(row["cause"]["client_id"] or "", is_text=True),
            Cell(row["outcome"], is_text=True),
            Cell(f"{row['members']}"),
            Cell(_seconds(row["still_ms"] / 1000)),
            Cell(f"{len(row['moves'])}"),
        ]
        for row in told[-REBALANCES_LISTED:]
    ]
    head = ("began", "generation", "cause", "by", "outcome", "members", "stood still", "moves")
    plot = bar_plot(bars, found.from_ms, found.to_ms) if bars else ""
    return "<h3>Rebalances</h3>" + plot + _table(head, lines, text=("cause", "by", "outcome"))


def _says(row: Row) -> str:
    return (
        f"{clock(row['started_ms'])}: {row['cause']['kind']}, stood still {_seconds(row['still_ms'] / 1000)}"
    )


def _verdict(name: str) -> Cell:
    return Cell(f'<span class="v {name}">{name}</span>', is_markup=True)


def _rate(value: float | None) -> str:
    return "" if value is None else short(max(value, 0.0))


def _seconds(value: float) -> str:
    """Return a duration as people say it."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 7_200 else f"{value / 3600:.1f} h"


def _table(head: Sequence[str], lines: Iterable[Sequence[Cell]], text: Sequence[str] = ()) -> str:
    left = {"group", "partition", "causes", "begun by", *text}
    names = "".join(
        f'<th class="text">{escape(name)}</th>' if name in left else f"<th>{escape(name)}</th>"
        for name in head
    )
    body = "".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(cell: Cell) -> str:
    text = cell.text if cell.is_markup else escape(cell.text)
    return f'<td class="text">{text}</td>' if cell.is_text else f"<td>{text}</td>"
