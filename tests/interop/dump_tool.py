"""Apache Kafka's DumpLogSegments, run over files, and what it says when they do not agree with each other."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.interop.kafka_tools import QUICK_JVM

DUMP_TIMEOUT_S = 120
# What the tool says, in any of its ways, when files do not agree with each other.
COMPLAINTS = (
    "Mismatches in",
    "timestamp mismatch",
    "out of order",
    "not found",
    "isvalid: false",
    "invalid bytes",
    "is corrupt",
    "Exception",
    "Indexed offset",
)


def java(libs: Path, *arguments: str) -> list[str]:
    """Return the command that runs a class of Kafka's."""
    return [shutil.which("java") or "java", *QUICK_JVM, "-cp", f"{libs}/*", *arguments]


def kafka_dump(libs: Path, *arguments: str) -> list[str]:
    """Return the lines that kafka-dump-log prints, its complaints included."""
    command = java(libs, "org.apache.kafka.tools.DumpLogSegments", *arguments)
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", timeout=DUMP_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return (done.stdout + done.stderr).splitlines()


def complaints(lines: Iterable[str]) -> list[str]:
    """Return the lines in which the tool complains; what records hold is not among them."""
    return [line for line in lines if not line.startswith("| ") and any(each in line for each in COMPLAINTS)]
