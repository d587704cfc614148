"""`kohort spark alerts`."""

import time
from typing import TYPE_CHECKING

import click

from kohort.cli.completion import complete_topics
from kohort.cli.options import bootstrap_option, json_option
from kohort.cli.output import print_encoded, print_line
from kohort.cli.spark import cluster_at, follow, require_pyspark, spark_options, spark_session, telling_errors

if TYPE_CHECKING:
    from kohort.pipeline.analytics.alert_board import Alert
    from kohort.pipeline.analytics.alerts import WatchSummary


@click.command("alerts")
@click.option(
    "--to-topic",
    "topic",
    required=True,
    metavar="TOPIC",
    help="The topic for alerts; it must exist.",
    shell_complete=complete_topics,
)
@click.option(
    "--every", "every_s", type=click.FloatRange(0.1), default=10.0, show_default=True, metavar="SECONDS",
    help="How often to check.",
)  # fmt: skip
@click.option(
    "--for", "for_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
    help="Stop after this time.  [default: Ctrl-C]",
)  # fmt: skip
@spark_options
@json_option
@bootstrap_option
def alerts_command(
    *,
    topic: str,
    every_s: float,
    for_s: float | None,
    master: str,
    memory: str,
    settings: dict[str, str],
    as_json: bool,
    servers: str,
) -> None:
    """Watch all groups, and write an alert to a topic when a verdict changes or a rebalance storm begins.

    Each alert is a JSON record with the group's id as its key; it is printed as well. After a restart, what
    is still wrong is reported again.

    \b
    kohort topics create alerts
    kohort spark alerts --to-topic alerts
    """
    cluster = cluster_at(servers)
    require_pyspark()
    from kohort.pipeline.analytics.alerts import places_to_watch, watch

    with telling_errors():
        places_to_watch(cluster, topic)  # Before Spark starts, which takes a while.
    with spark_session("kohort alerts", master, memory, settings) as session:
        began_s = time.monotonic()
        job = watch(session, cluster, topic, every_s=every_s, hear=_print_json if as_json else _print)
        until_s = None if for_s is None else began_s + for_s
        summary = follow(job, "watching", lambda: _progress(job.summary), until_s)
    print_line(_summary_text(summary, topic, time.monotonic() - began_s), err=True)


def _progress(summary: "WatchSummary") -> str:
    if summary.error is not None:
        return f"waiting for the broker: {summary.error}"
    return f"watching {_watched(summary)}; {_some(summary.alerts, 'alert')} written"


def _watched(summary: "WatchSummary") -> str:
    return f"{_some(summary.groups, 'group')} in {_some(summary.partitions, 'partition')}"


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _summary_text(summary: "WatchSummary", topic: str, seconds: float) -> str:
    counts = [f"{count:,} {verdict}" for verdict, count in sorted(summary.verdicts.items())]
    counts += [_some(summary.storms, "rebalance storm")] if summary.storms else []
    kinds = f" ({', '.join(counts)})" if counts else ""
    return (
        f"{_some(summary.alerts, 'alert')}{kinds} written to {topic}; looked {_some(summary.looks, 'time')}"
        f" in {seconds:.0f} s at {_watched(summary)}"
    )


def _print_json(alert: "Alert") -> None:
    import msgspec

    print_encoded(msgspec.json.encode(alert))


def _print(alert: "Alert") -> None:
    print_line(_line(alert))


def _line(alert: "Alert") -> str:
    """Return an alert as it is printed."""
    from kohort.pipeline.analytics.alert_board import VerdictAlert

    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(alert.at_ms / 1000))
    if isinstance(alert, VerdictAlert):
        told = f"{at}  {alert.group_id}  {alert.before} -> {alert.verdict}  lag {alert.lag:,}"
        places = [f"{each.topic}-{each.partition}" for each in alert.partitions]
        if alert.partition_count > len(places):
            places.append(f"{alert.partition_count - len(places):,} more")
        return f"{told} ({', '.join(places)})" if places else told
    causes = ", ".join(f"{name} ({count})" for name, count in alert.causes.items())
    return f"{at}  {alert.group_id}  storm: {alert.rebalances:,} rebalances; {causes}"
