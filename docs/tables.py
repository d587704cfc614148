"""Writes the tables in docs/ from what the code declares: settings, metrics, APIs, errors, commands.

python docs/tables.py [--check]     with --check nothing is written; the status is 1 where a table is old
"""

import contextlib
import inspect
import io
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
import msgspec

from kohort.broker.config import BROKER_DEFINITIONS, TOPIC_DEFINITIONS, ConfigDefinition, render
from kohort.broker.config.pending import BROKER_WITHOUT_EFFECT, TOPIC_WITHOUT_EFFECT
from kohort.broker.handlers.apis import MODULES
from kohort.broker.handlers.authorization.table import RULES
from kohort.broker.http.families import FAMILIES
from kohort.broker.main import parse
from kohort.cli.commands import kohort
from kohort.cli.queue_families import FAMILIES as QUEUE_FAMILIES
from kohort.client import errors
from kohort.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kohort.client.share.config import ShareConsumerConfig
from kohort.client.workers import HandlerError
from kohort.observe.families import FAMILIES as OBSERVE_FAMILIES
from kohort.protocol.errors import ErrorCode
from kohort.protocol.metric_family import Family
from kohort.protocol.registry import APIS

DOCS = Path(__file__).parent
KAFKAS_APIS = DOCS.parent / "tests" / "facts" / "kafka-4.4-api-versions.tsv"
WORDS = tomllib.loads((DOCS / "client-settings.toml").read_text(encoding="utf-8"))


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


def metrics(families: Iterable[Family]) -> str:
    """Return the table of metrics, in the order of the page."""
    return table(
        ("name", "kind", "labels", "meaning"),
        (
            (code(each.name), each.kind, ", ".join(code(label) for label in each.labels), each.documentation)
            for each in families
        ),
    )


def client_settings(config: type[ClientConfig], base: type[msgspec.Struct]) -> str:
    """Return the table of the settings that a client has beyond its base's, by name."""
    fields = {each.name: each for each in msgspec.structs.fields(config)}
    return table(
        ("name", "default", "meaning"),
        (
            (code(name), client_default(fields[name].default), WORDS[name])
            for name in sorted(fields)
            if name not in base.__struct_fields__
        ),
    )


def client_default(value: object) -> str:
    """Return a client's default as a user would write it."""
    return "none" if value is None else code(repr(value) if isinstance(value, str) else f"{value}")


def client_errors() -> str:
    """Return the table of the client's exceptions, each with its nearest code."""
    found = [
        each
        for each in (*vars(errors).values(), HandlerError)
        if inspect.isclass(each) and issubclass(each, errors.KohortError) and each is not errors.KohortError
    ]
    return table(
        ("name", "code", "meaning"),
        (
            (code(each.__name__), error_code(each), (inspect.getdoc(each) or "").partition("\n")[0])
            for each in sorted(found, key=lambda each: each.__name__)
        ),
    )


def error_code(error: type[errors.KohortError]) -> str:
    """Return the code that an exception stands for, where it is always the same one."""
    return "" if error.code is errors.KohortError.code else code(error.code.name)


def apis() -> str:
    """Return the table of the APIs that the broker answers, with Kafka's own versions."""
    lines = KAFKAS_APIS.read_text(encoding="utf-8").splitlines()[1:]
    kafkas = {int(key): versions for key, _, versions, *_ in (line.split("\t") for line in lines)}
    return table(
        ("key", "name", "versions", "in Kafka 4.4"),
        ((str(key), code(APIS[key].name), str(APIS[key].versions), kafkas[key]) for key in sorted(MODULES)),
    )


def authorization() -> str:
    """Return the table of what each API asks the authorizer, and what it answers to a denial."""
    return table(
        ("API", "operation", "on", "of which", "a denial is answered with"),
        (
            (
                code(APIS[key].name) if number == 0 else "",
                " or ".join(camel(each.name) for each in need.operations),
                camel(need.resource_type.name),
                need.of,
                code(need.denial) if need.denial.isupper() else need.denial,
            )
            for key in sorted(RULES.keys() & MODULES.keys())
            for number, need in enumerate(RULES[key].needs or (None,))
            if need is not None
        ),
    )


def free_apis() -> str:
    """Return the names of the APIs that everybody may ask."""
    return ", ".join(
        code(APIS[key].name) for key in sorted(RULES.keys() & APIS.keys()) if not RULES[key].needs
    )


def camel(name: str) -> str:
    """Return a constant's name as Kafka's tools write it."""
    return "".join(each.capitalize() for each in name.split("_"))


def error_codes() -> str:
    """Return the table of Kafka's error codes, each with the client's exceptions that always stand for it."""
    raised: dict[ErrorCode, list[str]] = {}
    for each in vars(errors).values():
        if inspect.isclass(each) and issubclass(each, errors.KohortError) and error_code(each):
            raised.setdefault(each.code, []).append(code(each.__name__))
    return table(
        ("code", "name", "retriable", "raised by the client as"),
        (
            (
                str(each.value),
                code(each.name),
                "yes" if each.retriable else "",
                ", ".join(raised.get(each, ())),
            )
            for each in ErrorCode
        ),
    )


def commands() -> str:
    """Return a part for each command: what it does, and a table of its options."""
    return "\n\n".join(
        f"## {' '.join(path)}\n\n{text}\n\n{table(('argument or option', 'meaning'), options)}"
        for path, text, options in _commands(kohort, ("kohort",))
    )


def _commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str, list[tuple[str, str]]]]:
    if path == ("kohort", "serve"):
        yield path, "Run a broker until SIGTERM, SIGINT or SIGHUP.", _serve_options()
        return
    context = click.Context(command, info_name=path[-1], max_content_width=100)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _commands(found, (*path, name))
        return
    arguments = (each for each in command.params if isinstance(each, click.Argument))
    options = (each for each in command.get_params(context) if isinstance(each, click.Option))
    records = (each.get_help_record(context) for each in options)
    rows = [(code(each.make_metavar(context)), "") for each in arguments]
    rows += [(code(found[0]), found[1]) for found in records if found and not found[0].endswith("--help")]
    yield path, inspect.cleandoc(command.help or "").replace("\b\n", ""), rows


def _serve_options() -> list[tuple[str, str]]:
    """Return the options of `kohort serve`, which has a parser of its own."""
    printed = io.StringIO()
    os.environ["COLUMNS"] = "200"  # Where lines are broken, words with hyphens are.
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        parse(["--help"])
    _, _, options = printed.getvalue().partition("show this help message and exit\n")
    parts = re.split(r"^  (?=--)", options, flags=re.MULTILINE)[1:]
    found = (re.match(r"(--\S+(?: [^ \n]\S*)?)\s+(.*)", each, re.DOTALL) for each in parts)
    return [(code(each[1]), " ".join(each[2].split())) for each in found if each]


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
        DOCS / "metrics.md": {
            "metrics": metrics(FAMILIES),
            "queue metrics": metrics(QUEUE_FAMILIES),
            "observe metrics": metrics(OBSERVE_FAMILIES),
        },
        DOCS / "reference" / "apis.md": {"apis": apis()},
        DOCS / "reference" / "authorization.md": {"rules": authorization(), "free": free_apis()},
        DOCS / "reference" / "errors.md": {"error codes": error_codes()},
        DOCS / "reference" / "commands.md": {"commands": commands()},
        DOCS / "client.md": {
            "client settings": client_settings(ClientConfig, msgspec.Struct),
            "consumer settings": client_settings(ConsumerConfig, ClientConfig),
            "share consumer settings": client_settings(ShareConsumerConfig, ClientConfig),
            "producer settings": client_settings(ProducerConfig, ClientConfig),
            "errors": client_errors(),
        },
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
