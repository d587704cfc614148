"""`kohort spark replay`, `audit` and `analyse`."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.cli.completion import complete_groups, complete_topics
from kohort.cli.options import bootstrap_option, json_option
from kohort.cli.output import print_json, print_line
from kohort.cli.spark import (
    PROBLEM,
    cluster_at,
    require_pyspark,
    say,
    spark_options,
    spark_session,
    telling_errors,
)
from kohort.cli.spark_checks import require_new_folder, require_place, require_topics
from kohort.pipeline.options import parse_time_ms
from kohort.protocol.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kohort.pipeline.audit import Audit

PROBLEMS_PRINTED = 1_000
MEGABYTE = 1_000_000


@click.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--from", "starting", default="earliest", show_default=True, metavar="PLACE", help="The first.")
@click.option(
    "--until", "ending", default="latest", show_default=True, metavar="PLACE", help="Behind the last."
)
@click.option("--to", "folder", metavar="DIR", help="Write Parquet files into this folder, which is new.")
@click.option(
    "--to-topic",
    "topic",
    metavar="TOPIC",
    help="Write the records to this topic.",
    shell_complete=complete_topics,
)
@click.option("--name", help="With --to-topic: under the same name the same range is written once.")
@spark_options
@json_option
@bootstrap_option
def replay(
    *,
    topics: tuple[str, ...],
    starting: str,
    ending: str,
    folder: str | None,
    topic: str | None,
    name: str | None,
    master: str,
    memory: str,
    settings: dict[str, str],
    as_json: bool,
    servers: str,
) -> None:
    """Write a range of topics once more, to files or to a topic. No group is touched.

    A PLACE is earliest, latest, timestamp:2026-01-31T12:00:00Z, group:NAME (where that group is now),
    group:NAME@2026-01-31T12:00:00Z (where it was then), or offsets as JSON.

    \b
    kohort spark replay flights --from group:billing@2026-01-31T12:00:00Z --to /data/again
    kohort spark replay flights --from timestamp:2026-01-31T12:00:00Z --to-topic flights-again --name again-1
    """
    if (folder is None) == (topic is None):
        raise click.UsageError("give either --to DIR or --to-topic TOPIC")
    cluster = cluster_at(servers)
    with telling_errors():
        require_place("--from", starting)
        require_place("--until", ending)
        if folder is not None:
            require_new_folder("--to", folder)
        require_topics(cluster, topics if topic is None else (*topics, topic))
    with spark_session("kohort replay", master, memory, settings) as session:
        from kohort.pipeline.replaying import replay as read_range
        from kohort.pipeline.replaying import write_to_topic

        say("reading and writing ...")
        frame = read_range(session, cluster, topics, starting=starting, ending=ending)
        if topic is not None:
            done = write_to_topic(frame, cluster, topic, name=name)
            rows, repeated = done.rows, done.repeated
        else:
            rows, repeated = _write_files(frame, str(folder)), 0
    if as_json:
        print_json({"rows": rows, "repeated": repeated, "written_to": topic or folder})
        return
    print_line(f"{rows:,} records written to {topic or folder}")
    if repeated:
        print_line(f"{repeated:,} were there already, written under the name {name!r} before")


def _write_files(frame: "DataFrame", folder: str) -> int:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    counted = Observation()
    frame.observe(counted, F.count(F.lit(1)).alias("rows")).write.parquet(folder)
    return int(counted.get["rows"])


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option("--compacted", multiple=True, metavar="TOPIC", help="A topic that may have gaps; repeatable.")
@click.option("--deep", is_flag=True, help="Also decode every record: slower.")
@click.option("--to", "output", metavar="DIR", help="Also write the report's tables there, as Parquet.")
@spark_options
@json_option
def audit(
    *,
    folder: str,
    topics: tuple[str, ...],
    compacted: tuple[str, ...],
    deep: bool,
    output: str | None,
    master: str,
    memory: str,
    settings: dict[str, str],
    as_json: bool,
) -> None:
    """Check all segments of a data folder: CRCs, gaps, order, duplicates, indexes. Nothing is changed.

    A segment is a task, so that many cores, or many machines that reach the folder, share the work. The exit
    code is 1 when something is wrong. A broker that runs on the folder is not in the way: what it is just
    writing may look torn.

    \b
    kohort spark audit kohort-data --deep
    """
    began = time.monotonic()
    require_pyspark()
    from kohort.pipeline.audit import audit as look
    from kohort.pipeline.audit import partitions_in

    with telling_errors():
        partitions_in(folder, topics)
    with spark_session("kohort audit", master, memory, settings) as session:
        say("looking at segments ...")
        found = look(session, folder, topics=topics, compacted=compacted, deep=deep)
        problems = [row.asDict() for row in found.problems.limit(PROBLEMS_PRINTED).collect()]
        if output is not None:
            found.problems.write.mode("overwrite").parquet(f"{output}/problems")
            found.partitions.write.mode("overwrite").parquet(f"{output}/partitions")
        _tell_audit(found, problems, time.monotonic() - began, as_json=as_json)
        count = found.problem_count
    if count:
        sys.stdout.flush()
        raise click.exceptions.Exit(PROBLEM)


def _tell_audit(found: "Audit", problems: list[dict[str, object]], seconds: float, *, as_json: bool) -> None:
    if as_json:
        partitions = [row.asDict() for row in found.partitions.collect()]
        print_json({"problems": problems, "problem_count": found.problem_count, "partitions": partitions})
        return
    for each in problems:
        place = f"offset {each['offset']}" if int(str(each["position"])) < 0 else f"at {each['position']}"
        print_line(f"{each['path']} {place}: {each['kind']}: {each['text']}")
    if found.problem_count > len(problems):
        print_line(f"... and {found.problem_count - len(problems):,} more")
    verdict = f"{found.problem_count:,} problems" if found.problem_count else "nothing is wrong"
    megabytes = found.size_bytes / MEGABYTE
    print_line(
        f"{found.segments:,} segments, {found.batches:,} batches, {found.records:,} records,"
        f" {megabytes:,.1f} MB in {seconds:.1f} s: {verdict}"
    )


@click.command()
@click.option(
    "--group",
    "groups",
    multiple=True,
    help="Only this group; may be repeated.",
    shell_complete=complete_groups,
)
@click.option("--report", default="groups.html", show_default=True, metavar="FILE", help="The page to write.")
@click.option("--to", "output", metavar="DIR", help="Also write the report's tables there, as Parquet.")
@click.option(
    "--data", "folder", default="", metavar="DIR", help="Read the broker's topics from this folder."
)
@click.option(
    "--since", metavar="TIME", help="Leave out what is older than this time, such as 2026-01-31T12:00:00Z."
)
@spark_options
@json_option
@bootstrap_option
def analyse(
    *,
    groups: tuple[str, ...],
    report: str,
    output: str | None,
    folder: str,
    since: str | None,
    master: str,
    memory: str,
    settings: dict[str, str],
    as_json: bool,
    servers: str,
) -> None:
    """Report on consumer groups: lag and throughput over time, verdicts, rebalances, storms.

    It reads the broker's own topics, __consumer_offsets and __group_events.

    \b
    kohort spark analyse --report groups.html
    kohort spark analyse --group billing --to /data/groups
    """
    cluster = cluster_at(servers)
    with telling_errors():
        since_ms = None if since is None else parse_time_ms("--since", since)
    with spark_session("kohort analyse", master, memory, settings) as session:
        from kohort.pipeline.analytics.arithmetic import time_to_drain
        from kohort.pipeline.analytics.job import analyse as look
        from kohort.pipeline.analytics.page import write_page

        say("reading what the broker knows ...")
        found = look(session, cluster, groups=groups, folder=folder, since_ms=since_ms)
        path = write_page(found, Path(report))
        if output is not None:
            found.write(output)
        rows = found.standings.orderBy("group_id", "topic", "partition").collect()
        if as_json:
            standings = [row.asDict(recursive=True) for row in rows]
            storms = [row.asDict(recursive=True) for row in found.storms.collect()]
            print_json({"report": str(path.absolute()), "standings": standings, "storms": storms})
            return
        for row in rows:
            has_pace = row.consumed_per_s is not None
            drained = time_to_drain(row.drain_seconds, Verdict(row.verdict), has_pace=has_pace)
            place = f"{row.group_id}  {row.topic}-{row.partition}"
            print_line(f"{place}  lag {row.lag:,}  {row.verdict}  time to drain: {drained}")
    print_line(f"the report is {path.absolute()}")
