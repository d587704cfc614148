"""An executor dies while a batch is written: the table has each record once all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kohort.pipeline.ingest.folder import LocalFolder
from kohort.pipeline.ingest.formats import DELTA, ICEBERG, PARQUET
from kohort.pipeline.ingest.manifest import ManifestLog
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import MissingTool, jars
from tests.spark.ingest_driver import iceberg_catalog, table_in
from tests.spark.ingest_world import ROOT, only_large
from tests.spark.topics import Topics, numbered

TIMEOUT_S = 900
RECORDS = 2_000
DRIVER = """
import os, signal, sys
from pathlib import Path

from kohort.pipeline.delta import delta_settings
from kohort.pipeline.ingest import ingest, read_manifest
from kohort.pipeline.session import local_session

form, bootstrap, topic, folder, table, *jars = sys.argv[1:]
quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
spark = local_session("lost", master="local-cluster[2,1,512]", memory="512m", jars=jars, settings={
    **(delta_settings(fetch=False) if jars else {}),
    "spark.driver.extraJavaOptions": quick, "spark.executor.extraJavaOptions": quick,
    "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.locality.wait": "0s",
})
spark.sparkContext.setLogLevel("OFF")
dead = folder + "/dead"

def dying(batches):
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
    if rows and list(Path(folder).rglob("*.parquet")):  # Other tasks have files, and this one has rows.
        try:
            os.close(os.open(dead, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(executor, signal.SIGKILL)

options = {"bootstrap": bootstrap, "topics": topic, "starting": "earliest", "rows_per_partition": "250"}
stream = spark.readStream.format("kohort").options(**options).load()
stream = stream.mapInArrow(dying, stream.schema)
with ingest(stream, table, folder + "/checkpoint", "lost-" + form, bootstrap, format=form) as job:
    job.wait()
    summary = job.stop()
if form == "iceberg":
    from pyiceberg.catalog import load_catalog
    written = load_catalog("lake").load_table(table.removeprefix("lake."))
    frame = spark.createDataFrame(written.scan().to_arrow())
else:
    frame = spark.read.format("delta").load(table) if jars else read_manifest(spark, table)
assert os.path.exists(dead), "no executor was killed"
print("rows", summary.rows, summary.rows_in_table, "values", frame.select("value").distinct().count(),
      "group", summary.group.error)
spark.stop()
"""


@only_large
@pytest.mark.parametrize("form", [PARQUET, DELTA, ICEBERG])
def test_an_executor_that_is_killed_while_a_batch_is_written(
    broker: BrokerProcess, topics: Topics, tmp_path: Path, form: str
) -> None:
    try:
        found = sorted(jars("delta").glob("*.jar")) if form == DELTA else []
    except MissingTool as missing:
        pytest.skip(str(missing))
    topic = topics.make(4)
    topics.fill(topic, numbered(RECORDS, partitions=4))
    arguments = [form, broker.bootstrap, topic, str(tmp_path), table_in(tmp_path, form), *map(str, found)]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, *arguments],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=ROOT,
        env={**os.environ, **iceberg_catalog(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == f"rows {RECORDS} {RECORDS} values {RECORDS} group None"
    if form == DELTA:
        values = DeltaTable(str(tmp_path / "table")).to_pandas()["value"]
        assert sorted(int(each) for each in values) == list(range(RECORDS))
    elif form == PARQUET:
        assert ManifestLog(LocalFolder(tmp_path / "table")).read().rows == RECORDS
