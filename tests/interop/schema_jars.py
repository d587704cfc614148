"""Kafka's jars with its message schemas and the classes generated from them, fetched once by Maven.

They lie in the user's cache folder (`$XDG_CACHE_HOME/kohort-tests`), never in the repository.
"""

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import msgspec

KAFKA_VERSION = "4.4.0"
ARTIFACTS = (
    f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-group-coordinator:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-transaction-coordinator:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-share-coordinator:{KAFKA_VERSION}",
    "org.slf4j:slf4j-api:1.7.36",
)
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
FETCH_TIMEOUT_S = 300

_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')


class MissingTool(Exception):
    """Java or Maven is not here, or Maven reaches no repository; says which."""


def cache_folder() -> Path:
    """Return the folder that keeps the jars between runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kohort-tests" / f"schemas-{KAFKA_VERSION}"


def jars() -> list[Path]:
    """Return the paths of the jars, fetching those that are missing. Raises: MissingTool."""
    folder = cache_folder()
    return [_jar(folder, artifact) for artifact in ARTIFACTS]


def _jar(folder: Path, artifact: str) -> Path:
    _, name, version = artifact.split(":")
    path = folder / f"{name}-{version}.jar"
    if not path.exists():
        _copy(artifact, path)
    return path


def _copy(artifact: str, path: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingTool("Maven is not installed")
    # Into a folder of our own first: another test run may be fetching the same jar.
    own = path.parent / f"fetch-{os.getpid()}"
    command = [maven, "--batch-mode", "--quiet", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={own}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode:
        raise MissingTool(f"Maven could not fetch {artifact}: {done.stdout[:300]}")
    (own / path.name).replace(path)
    own.rmdir()


def schemas() -> dict[str, dict[str, object]]:
    """Return every message schema in the jars, by its name. Raises: MissingTool."""
    found = {}
    for jar in jars():
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if entry.startswith("common/message/") and entry.endswith(".json"):
                    text = _STRING_OR_COMMENT.sub(r"\1", archive.read(entry).decode())
                    schema = msgspec.json.decode(text, type=dict[str, object])
                    found[str(schema["name"])] = schema
    return found
