"""`kohort spark ingest`."""

from typing import TYPE_CHECKING

import click

from kohort.cli.completion import complete_groups, complete_topics
from kohort.cli.options import bootstrap_option, json_option
from kohort.cli.output import print_json, print_line
from kohort.cli.spark import (
    PROBLEM,
    cluster_at,
    follow,
    require_pyspark,
    spark_options,
    spark_session,
    telling_errors,
)
from kohort.cli.spark_checks import require_place, require_topics

if TYPE_CHECKING:
    from kohort.pipeline.ingest import Ingest, Summary


@click.command("ingest")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topics)
@click.option(
    "--to", "table", required=True, metavar="TABLE",
    help="The table's folder; of Iceberg its name, CATALOG.NAMESPACE.TABLE.",
)  # fmt: skip
@click.option(
    "--group",
    required=True,
    help="The group that gets Spark's offsets. Nothing else may use it.",
    shell_complete=complete_groups,
)
@click.option(
    "--checkpoint", metavar="DIR",
    help="Spark's checkpoint; Iceberg needs it.  [default: _checkpoint in the table]",
)  # fmt: skip
@click.option(
    "--from", "starting", default="earliest", show_default=True, metavar="PLACE",
    help="Where a new checkpoint begins: earliest, latest, group:NAME, timestamp:..., or offsets as JSON.",
)  # fmt: skip
@click.option(
    "--every",
    metavar="TIME",
    help='Keep running, with a batch every "10 seconds".  [default: stop at the end]',
)
@click.option("--max-rows", type=click.IntRange(1), help="The most rows of a batch.")
@click.option(
    "--format", "form", metavar="[parquet|delta|iceberg]", default="parquet", show_default=True,
    help="Parquet files with a manifest, Delta Lake, which Spark fetches from Maven Central, or Iceberg.",
)  # fmt: skip
@click.option(
    "--partition-by", "partition_by", multiple=True, metavar="COLUMN",
    help="Partition a table of Delta or Iceberg by this column; may be repeated.",
)  # fmt: skip
@click.option(
    "--decode", metavar="FORM:FILE",
    help="What values hold: registry:URL, json:FILE, avro:FILE or protobuf:FILE:MESSAGE.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Continue a table whose checkpoint is lost.")
@click.option("--backwards", is_flag=True, help="Allow the group's offsets to move back to the checkpoint.")
@click.option("--allow-data-loss", is_flag=True, help="Continue although records are lost.")
@spark_options
@json_option
@bootstrap_option
def ingest_command(
    *,
    topics: tuple[str, ...],
    table: str,
    group: str,
    checkpoint: str | None,
    starting: str,
    every: str | None,
    max_rows: int | None,
    form: str,
    partition_by: tuple[str, ...],
    decode: str | None,
    resume: bool,
    backwards: bool,
    allow_data_loss: bool,
    master: str,
    memory: str,
    settings: dict[str, str],
    as_json: bool,
    servers: str,
) -> None:
    """Write topics to a table, each record once, and commit the progress to a group.

    A later start continues where it was. The exit code is 1 when the commit to the group failed.

    \b
    kohort spark ingest flights --to /data/flights --group spark
    kohort spark ingest flights --to /data/flights --group spark --every "10 seconds"
    kohort spark ingest flights --to /data/flights --group spark --format delta --decode json:flights.ddl
    kohort spark ingest flights --to /data/flights --group spark --decode registry:http://127.0.0.1:8081
    kohort spark ingest flights --to lake.air.flights --format iceberg --group spark --checkpoint /ck
    """
    cluster = cluster_at(servers)
    require_pyspark()
    from kohort.pipeline.delta import delta_settings, package
    from kohort.pipeline.errors import OptionError
    from kohort.pipeline.ingest.formats import DELTA, ICEBERG, require_format
    from kohort.pipeline.payload import decoded, parse_payload, registry_of

    with telling_errors():
        require_format(form, table)
        if form == ICEBERG and checkpoint is None:
            raise OptionError("--format iceberg needs --checkpoint DIR: the table is no folder to have it in")
        registry = registry_of(decode)
        payload = None if decode is None or registry is not None else parse_payload(decode)
        require_place("--from", starting)
        require_topics(cluster, topics)
    needed = [] if payload is None or payload.package is None else [payload.package]
    if form == DELTA:
        settings = {**delta_settings(fetch=False), **settings}
        needed.append(package())
    with spark_session("kohort ingest", master, memory, settings, needed) as session:
        from kohort.pipeline.ingest import ingest

        reader = session.readStream.format("kohort").options(**cluster.options())
        reader = reader.option("topics", ",".join(topics)).option("starting", starting)
        reader = reader.option("fail_on_data_loss", str(not allow_data_loss).lower())
        if max_rows is not None:
            reader = reader.option("max_rows_per_trigger", str(max_rows))
        if registry is not None:
            reader = reader.option("schema_registry", registry)
        stream = reader.load()
        if payload is not None:
            stream = decoded(stream, payload)
        job = ingest(
            stream,
            table,
            checkpoint or f"{table.rstrip('/')}/_checkpoint",
            group,
            cluster,
            every=every,
            resume=resume,
            backwards=backwards,
            fail_on_data_loss=not allow_data_loss,
            format=form,
            partition_by=partition_by,
        )
        summary = follow(job, "reading", lambda: _progress(job))
    _print_summary(summary, group, as_json)


def _progress(job: "Ingest") -> str:
    state = "told" if job.group.is_true else f"not told: {job.group.error}"
    return f"{job.rows:,} rows in the table; group {state}"


def _print_summary(summary: "Summary", group: str, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "rows": summary.rows,
                "rows_in_table": summary.rows_in_table,
                "batches_in_table": summary.batches_in_table,
                "batch_id": summary.batch_id,
                "offsets": [[each.topic, each.partition, end] for each, end in summary.offsets.items()],
                "group": {"id": group, "batch_id": summary.group.batch_id, "error": summary.group.error},
            }
        )
    else:
        print_line(
            f"{summary.rows:,} rows written, {summary.rows_in_table:,} in the table"
            f" from {len(summary.offsets):,} partitions; last batch {summary.batch_id}"
        )
        if summary.group.is_true:
            print_line(f"group {group} is where the checkpoint is")
    if summary.group.error is not None:
        print_line(f"kohort: group {group} could not be told: {summary.group.error}", err=True)
        raise click.exceptions.Exit(PROBLEM)
