"""The page for people who know other clients: its Python runs, its Java is compiled."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.guide import blocks
from tests.client.test_guide import ROOT, run_page
from tests.differential import apache_kafka
from tests.interop.broker_process import BrokerProcess

PAGE = ROOT / "docs" / "other-clients.md"
JAVA = re.compile(r"^```java\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
CLASS = """import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

class Page {{
{methods}
}}
"""
METHOD = "    static void block{number}() throws Exception {{\n{code}    }}\n"


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[str]:
    process = BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=0")
    process.start()
    yield process.bootstrap
    process.stop()


def test_every_client_prints_what_the_page_says(new_broker: str) -> None:
    printed = run_page(PAGE, new_broker)
    assert printed.count(f"-- {PAGE.name}") == len(list(blocks(PAGE)))
    for client in ("kohort", "confluent-kafka", "kafka-python", "aiokafka"):
        assert re.search(rf"^{client}: .*\d$", printed, re.MULTILINE), f"{client} wrote nothing"
        assert f"{client}: b'anna' b'3 apples'" in printed, f"{client} read nothing"
    assert "kohort.client.aio: b'anna' b'3 apples'" in printed
    assert "offset=4" in printed
    assert "assigned: [0]" in printed
    assert "TOPIC_ALREADY_EXISTS" in printed
    assert "classic Empty" in printed


def test_the_java_of_the_page_is_compiled(tmp_path: Path) -> None:
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("there is no Java compiler")
    try:
        jars = apache_kafka.jars()
    except apache_kafka.MissingTool as missing:
        pytest.skip(str(missing))
    found = [each["code"] for each in JAVA.finditer(PAGE.read_text(encoding="utf-8"))]
    assert len(found) == 2
    methods = [METHOD.format(number=number, code=code) for number, code in enumerate(found)]
    source = tmp_path / "Page.java"
    source.write_text(CLASS.format(methods="\n".join(methods)), encoding="utf-8")
    command = [javac, "-proc:none", "-Werror", "-classpath", f"{jars}/*", "-d", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
