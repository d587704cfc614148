"""The flights on Spark: ingest them, average each carrier's delays, and report on the group that read them.

`python examples/flights/on_spark.py` starts a broker of its own, or takes `--bootstrap HOST:PORT` of one that
has the topic already. Needs the extra `spark`. Exit status 0 when every flight is in the table once, the
averages are those of the file, and the group has no lag.
"""

from __future__ import annotations

import itertools
import math
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":  # Run as a file: its siblings are found from the repository's root.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from examples.flights import settings, topic
from examples.flights.broker_process import BrokerProcess
from examples.flights.dataset import FLIGHTS, MeanDelays, carrier_names, delays_in_data_frame, read_flights
from kohort.client import LATEST, Admin, TopicPartition
from kohort.pipeline.analytics.job import analyse
from kohort.pipeline.analytics.page import write_page
from kohort.pipeline.ingest import Summary, ingest, read_manifest
from kohort.pipeline.session import local_session

GROUP = "flights-spark"
FLIGHT = "index int, carrier string, departure_delay int, arrival_delay int"
ROWS_PER_BATCH = 60_000
MINUTES_APART_MAX = 1e-6


@contextmanager
def broker_with_flights(folder: Path, flights: int, console: Console) -> Iterator[str]:
    """Start a broker, fill the topic, and return where it listens."""
    broker = BrokerProcess(folder)
    broker.start()
    try:
        began = time.monotonic()
        topic.create(broker.bootstrap)
        topic.load(broker.bootstrap, itertools.islice(read_flights(), flights), lambda _some: None)
        console.print(f"{flights:,} flights in the topic {settings.TOPIC}, {time.monotonic() - began:.1f} s")
        yield broker.bootstrap
    finally:
        broker.stop()


def ingest_flights(spark: SparkSession, bootstrap: str, folder: Path) -> Summary:
    """Return what an ingest of all that is there has come to."""
    reader = spark.readStream.format("kohort").option("bootstrap", bootstrap)
    reader = reader.option("topics", settings.TOPIC).option("starting", "earliest")
    stream = reader.option("max_rows_per_trigger", ROWS_PER_BATCH).load()
    with ingest(stream, str(folder / "table"), str(folder / "checkpoint"), GROUP, bootstrap) as job:
        job.wait()
        return job.stop()


def flights_of(table: DataFrame) -> DataFrame:
    """Return the flights in the records of the table."""
    return table.select(F.from_json(F.col("value").cast("string"), FLIGHT).alias("flight")).select("flight.*")


def delays(flights: DataFrame) -> dict[str, MeanDelays]:
    """Return each carrier's flights and delays."""
    rows = flights.groupBy("carrier").agg(
        F.count("*").alias("flights"), F.avg("departure_delay"), F.avg("arrival_delay")
    )
    return {
        row[0]: MeanDelays(row[1], *(math.nan if mean is None else mean for mean in row[2:]))
        for row in rows.collect()
    }


def are_the_same(found: dict[str, MeanDelays], truth: dict[str, MeanDelays]) -> bool:
    """Return whether Spark and pandas agree on every carrier."""
    return found.keys() == truth.keys() and all(
        each.flights == truth[carrier].flights
        and _is_the_same(each.departure, truth[carrier].departure)
        and _is_the_same(each.arrival, truth[carrier].arrival)
        for carrier, each in found.items()
    )


def _is_the_same(one: float, other: float) -> bool:
    """Return whether two means are the same, or both are of nothing."""
    return abs(one - other) < MINUTES_APART_MAX or (math.isnan(one) and math.isnan(other))


def group_lag(bootstrap: str) -> int:
    """Return how far behind the group is, as every lag tool sees it."""
    partitions = [TopicPartition(settings.TOPIC, number) for number in range(settings.PARTITIONS)]
    with Admin(bootstrap_servers=bootstrap) as admin:
        ends = admin.list_offsets(dict.fromkeys(partitions, LATEST))
        committed = admin.list_group_offsets(GROUP)
    return sum(
        ends[each].offset - (committed[each].offset if each in committed else 0) for each in partitions
    )


def carriers_table(found: dict[str, MeanDelays]) -> Table:
    """Return the averages, the latest carrier first."""
    names = carrier_names()
    table = Table("carrier", "", title="delays in minutes", title_justify="left")
    for name in ("flights", "departure", "arrival"):
        table.add_column(name, justify="right")
    for carrier, each in sorted(found.items(), key=lambda pair: -pair[1].arrival):
        numbers = (f"{each.flights:,}", f"{each.departure:.1f}", f"{each.arrival:.1f}")
        table.add_row(carrier, names[carrier], *numbers)
    return table


def run(spark: SparkSession, bootstrap: str, folder: Path, flights: int, console: Console) -> bool:
    """Return whether everything is as it has to be."""
    began = time.monotonic()
    summary = ingest_flights(spark, bootstrap, folder)
    took = time.monotonic() - began
    console.print(f"{summary.rows:,} flights in {summary.batches_in_table} batches, {took:.1f} s")
    of_table = flights_of(read_manifest(spark, str(folder / "table"))).persist()
    found = delays(of_table)
    console.print(carriers_table(found))
    once = of_table.count() == of_table.select("index").distinct().count() == flights
    agrees = are_the_same(found, delays_in_data_frame(flights))
    console.print(f"every flight is there once: {once}; the averages are those of the file: {agrees}")
    lag = group_lag(bootstrap)
    console.print(f"lag of group {GROUP}: {lag}")
    page = write_page(analyse(spark, bootstrap, groups=[GROUP]), folder / "groups.html")
    console.print(f"report on the group: {page}")
    of_table.unpersist()
    return once and agrees and lag == 0 and summary.group.is_true


def run_here(bootstrap: str, folder: Path, flights: int, console: Console) -> bool:
    """Return whether everything is as it has to be, on a Spark of its own."""
    console.print("starting Spark ...")
    spark = local_session("flights")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        return run(spark, bootstrap, folder, flights, console)
    finally:
        spark.stop()


def main() -> int:
    """Return the exit status."""
    parser = ArgumentParser(description="Ingest the flights with Spark and report on them.")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that has the topic already")
    parser.add_argument("--flights", type=int, default=FLIGHTS, help="how many of them")
    parser.add_argument("--folder", type=Path, help="where table and report stay; else they are thrown away")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="kohort-flights-") as name:
        folder = options.folder or Path(name)
        if options.bootstrap:
            is_well = run_here(options.bootstrap, folder, options.flights, console)
        else:
            with broker_with_flights(Path(name), options.flights, console) as bootstrap:
                is_well = run_here(bootstrap, folder, options.flights, console)
        if not options.folder:
            console.print("table and report are thrown away; --folder keeps them")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
