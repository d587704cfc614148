"""Two workers in processes of their own, on loopback: nothing assumes one machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.interop.broker_process import BrokerProcess
from tests.spark.topics import Topics, numbered

TIMEOUT_S = 150
DRIVER = """
import os, sys
from pyspark.sql import functions as F
from kohort.pipeline.session import local_session

bootstrap, source, target, data, folder = sys.argv[1:]
quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
spark = local_session("cluster", master="local-cluster[2,1,512]", memory="512m", settings={
    "spark.driver.extraJavaOptions": quick, "spark.executor.extraJavaOptions": quick,
    "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2",
    # Both workers get a task of each wave, however soon one of them is there.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.locality.wait": "0s",
})
spark.sparkContext.setLogLevel("ERROR")
options = {"bootstrap": bootstrap, "topics": source}
read = spark.read.format("kohort").options(**options, rows_per_partition="500").load()
where = F.udf(lambda _: f"{os.getppid()}", "string")  # The daemon of an executor.
workers = {row.worker for row in read.select(where("value").alias("worker")).distinct().collect()}
stream = spark.readStream.format("kohort").options(**options, starting="earliest").load()
sink = stream.select("key", "value").writeStream.format("kohort").trigger(availableNow=True)
query = sink.options(bootstrap=bootstrap, topic=target, checkpointLocation=folder + "/checkpoint").start()
query.awaitTermination()
copied = spark.read.format("kohort").options(bootstrap=bootstrap, topics=target).load()
files = spark.read.format("kohort-segments").options(path=data, topics=target).load()
in_files = len(files.collect())
plan = files._jdf.queryExecution().executedPlan().toString()
print("workers", len(workers), "rows", copied.count(), "values", copied.select("value").distinct().count(),
      "in files", in_files, "by Python", "Python" in plan)
spark.stop()
"""


def test_two_workers_read_stream_and_write(broker: BrokerProcess, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.make(4), topics.make(4)
    topics.fill(source, numbered(10_000, partitions=4))
    arguments = [broker.bootstrap, source, target, str(broker.data), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, *arguments],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "workers 2 rows 10000 values 10000 in files 10000 by Python False"
