"""docs/spark.md against the code: its Python runs, its commands parse, its rows name tests that exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from pyspark.sql import SparkSession

from kohort.cli.commands import kohort
from kohort.client import Admin, NewTopic
from tests.spark.ingest_world import only_large
from tests.spark.topics import Topics, numbered

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_every_row_of_the_failure_table_names_a_test_that_exists() -> None:
    table = re.findall(r"^\| .* \| `(test_\w+)` \|$", PAGE, re.MULTILINE)
    assert len(table) >= 12
    places = [*(ROOT / "tests" / "spark").glob("test_*.py"), *(ROOT / "pipeline").rglob("test_*.py")]
    code = "".join(each.read_text(encoding="utf-8") for each in places)
    for name in table:
        assert f"def {name}(" in code, name


@pytest.mark.parametrize(
    "line", [line for block in blocks("sh") for line in block.splitlines() if line.startswith("kohort")]
)
def test_every_command_on_the_page_parses(line: str) -> None:
    command: click.Command = kohort
    words = shlex.split(line)[1:]
    context = click.Context(kohort)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command = found
    if "audit" in line:
        words = [str(ROOT) if word == "kohort-data" else word for word in words]
    command.make_context(command.name, words)


@only_large
def test_the_python_on_the_page_runs(
    spark: SparkSession, bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic("flights", partitions=2, configs={"retention.ms": "-1"}))
    topics.fill("flights", numbered(50, partitions=2))
    names: dict[str, object] = {}
    for block in blocks("python"):
        code = block.replace("127.0.0.1:9092", bootstrap).replace("/data/", f"{tmp_path}/")
        exec(compile(code, "docs/spark.md", "exec"), names)
    assert spark.read.parquet(f"{tmp_path}/again").count() == 50
    assert (tmp_path / "groups.html").exists()


def test_without_pyspark_the_command_line_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'pyspark' else find(name, *more)\n"
        "from kohort.cli.main import main; sys.exit(main(['spark', 'audit', '.']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert "pip install 'kohort[spark]'" in done.stderr
