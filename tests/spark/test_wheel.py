"""What the wheel brings for Spark: a jar that the oldest Java runs, and a configuration of its log."""

from __future__ import annotations

import struct
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pyspark
import pytest
from pipeline import building

from kohort.pipeline.jvm.loading import jar_name
from tests.spark.ingest_world import ROOT

JAVA_17 = 61
"""The version of class files that `javac --release 17` writes."""


def test_the_wheel_brings_the_jar_for_this_spark(tmp_path: Path) -> None:
    try:
        building.build()
    except building.NoCompilerError as missing:
        pytest.skip(str(missing))
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert "kohort/pipeline/quiet.log4j2.properties" in names
        assert not [each for each in names if each.endswith(".java")]
        content = archive.read(f"kohort/pipeline/jvm/{jar_name(pyspark.__version__)}")
    with zipfile.ZipFile(BytesIO(content)) as jar:
        assert jar.read(building.SERVICE).decode().split() == [building.SOURCE_CLASS]
        classes = [each for each in jar.namelist() if each.endswith(".class")]
        versions = {struct.unpack_from(">IHH", jar.read(each))[2] for each in classes}
    assert f"{building.SOURCE_CLASS.replace('.', '/')}.class" in classes
    assert versions == {JAVA_17}
