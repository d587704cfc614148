"""Writes the tables in docs/ from what the code declares: settings, metrics.

python docs/tables.py [--check]     with --check nothing is written; the status is 1 where a table is old
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from kohort.broker.config import BROKER_DEFINITIONS, TOPIC_DEFINITIONS, ConfigDefinition, render
from kohort.broker.config.pending import BROKER_WITHOUT_EFFECT, TOPIC_WITHOUT_EFFECT
from kohort.broker.http.families import FAMILIES

DOCS = Path(__file__).parent


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str | None) -> str:
    """Return `text` as code, and nothing for nothing."""
    return f"`{text}`" if text else ""


def settings(definitions: Iterable[ConfigDefinition], without_effect: frozenset[str]) -> str:
    """Return the table of these settings, by name."""
    return table(
        ("name", "type", "default", "allowed", "meaning"),
        (
            (
                code(each.name),
                each.type.name.lower(),
                default(each),
                each.validator.words,
                each.documentation + (" *Without effect yet.*" if each.name in without_effect else ""),
            )
            for each in sorted(definitions)
        ),
    )


def default(definition: ConfigDefinition) -> str:
    """Return the default, and Kafka's where that is another one."""
    ours = "none" if definition.default is None else code(render(definition.default)) or "empty"
    return ours if definition.kafka_default is None else f"{ours} (Kafka: {code(definition.kafka_default)})"


def topic_names() -> str:
    """Return which of the broker's settings a topic takes its own from."""
    return table(
        ("of the topic", "of the broker, the first that is set"),
        (
            (code(each.name), ", ".join(code(name) for name in each.synonyms))
            for each in sorted(TOPIC_DEFINITIONS)
            if each.synonyms
        ),
    )


def metrics() -> str:
    """Return the table of metrics, in the order of the page."""
    return table(
        ("name", "kind", "labels", "meaning"),
        (
            (code(each.name), each.kind, ", ".join(code(label) for label in each.labels), each.documentation)
            for each in FAMILIES
        ),
    )


def written(file: Path, tables: dict[str, str]) -> str:
    """Return the text of `file` with each table between the two comments that bear its name."""
    text = file.read_text(encoding="utf-8")
    for name, content in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        assert found, (file, name)
        assert ended, (file, name)
        text = f"{before}{begin}{content}\n{end}{after}"
    return text


def main(arguments: Sequence[str]) -> int:
    """Write or check every file, and return the exit status."""
    files = {
        DOCS / "configuration.md": {
            "broker settings": settings(BROKER_DEFINITIONS, BROKER_WITHOUT_EFFECT),
            "topic settings": settings(TOPIC_DEFINITIONS, TOPIC_WITHOUT_EFFECT),
            "topic defaults": topic_names(),
        },
        DOCS / "metrics.md": {"metrics": metrics()},
    }
    texts = {file: written(file, tables) for file, tables in files.items()}
    old = [file for file, text in texts.items() if text != file.read_text(encoding="utf-8")]
    if "--check" in arguments:
        for file in old:
            sys.stderr.write(f"{file.name} is not what the code says: run make docs\n")
        return 1 if old else 0
    for file in old:
        file.write_text(texts[file], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
