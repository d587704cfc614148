"""A jar that does not fit the classes of its Spark, in a JVM of its own, where nobody has loaded one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark import __version__ as spark_version

from kohort.pipeline.jvm.loading import NoJarError, find_jar

DRIVER = """
import warnings
from kohort.pipeline import register
from kohort.pipeline.jvm import loading
from kohort.pipeline.session import local_session

assert hasattr(loading, "_CHECK")
loading._CHECK = "kohort.spark.ClassThatSparkHasChanged"
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    spark = local_session("unfit jar")
    register(spark)
print("warned", [str(each.message) for each in warned if each.category is RuntimeWarning])
print("columns", spark.read.format("kohort-segments").options(path=".", topics="t").load().columns)
"""


def test_segments_are_read_in_python_and_one_line_says_why() -> None:
    try:
        find_jar(spark_version)
    except NoJarError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    [warned, columns] = done.stdout.splitlines()[-2:]
    why = "java.lang.ClassNotFoundException: kohort.spark.ClassThatSparkHasChanged"
    assert warned == f"warned {[f'segments are read in Python: {why}']}", (
        "once, though there are two registers"
    )
    assert "'value'" in columns
