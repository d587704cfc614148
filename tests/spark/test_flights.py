"""The flights on Spark: a few of them in every run of the tests, all of them as people run the example."""

from __future__ import annotations

import io
import itertools
import math
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from examples.flights import on_spark, topic
from examples.flights.dataset import FLIGHTS, MeanDelays, read_flights
from tests.spark.ingest_driver import PATIENCE_S
from tests.spark.ingest_world import ROOT, only_large

SOME = 5_000


def test_some_flights_are_averaged_as_in_the_file(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topic.create(bootstrap)
    topic.load(bootstrap, itertools.islice(read_flights(), SOME), lambda _some: None)
    said = Console(file=io.StringIO(), width=120)
    assert on_spark.run(spark, bootstrap, tmp_path, SOME, said)
    assert (tmp_path / "groups.html").exists()


def test_averages_that_differ_from_the_file_are_noticed() -> None:
    nothing = math.nan
    truth = {"UA": MeanDelays(2, 5.0, -1.0), "OO": MeanDelays(1, nothing, nothing)}
    assert on_spark.are_the_same(dict(truth), truth)
    for wrong in (MeanDelays(1, 5.0, -1.0), MeanDelays(2, 5.01, -1.0), MeanDelays(2, 5.0, nothing)):
        assert not on_spark.are_the_same(truth | {"UA": wrong}, truth)
    assert not on_spark.are_the_same({"UA": truth["UA"]}, truth)


@only_large
def test_averages_of_all_flights_equal_the_file() -> None:
    done = subprocess.run(
        [sys.executable, "examples/flights/on_spark.py"],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert f"{FLIGHTS:,} flights in 6 batches" in done.stdout
    assert "every flight is there once: True; the averages are those of the file: True" in done.stdout
