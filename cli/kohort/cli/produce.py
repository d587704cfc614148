"""`kohort produce`: lines into a topic."""

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO, Protocol

import click

from kohort.cli.client_settings import with_settings
from kohort.cli.completion import complete_topics
from kohort.cli.input_lines import FORMATS, json_record, line_record
from kohort.cli.options import (
    API_TIMEOUT_MS,
    bootstrap_option,
    json_option,
    key_values,
    open_admin,
    require_broker,
    unescaped,
)
from kohort.cli.output import print_json, print_line
from kohort.client import Delivery, Producer
from kohort.client.config import COMPRESSION_TYPES, ProducerOptions

BATCH_BYTES = 262_144
LINGER_MS = 20
MOST_UNCHECKED = 100_000
DELIVERY_TIMEOUT_MS = 30_000
"""Somebody waits for it: a full disk, or a partition without a leader, is told within this time."""


class Progress(Protocol):
    """What shows how far a long input has come."""

    def advance(self, size_bytes: int) -> None:
        """Count one more line."""


class _Silent:
    def advance(self, size_bytes: int) -> None:
        pass


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--file",
    "-f",
    "source",
    type=click.File("rb"),
    default="-",
    help="Read lines from this file.  [default: standard input]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="value",
    show_default=True,
    help="json: lines as `consume --format json` prints them, with value, key, headers, partition.",
)
@click.option(
    "--key-separator",
    "-k",
    metavar="TEXT",
    help=r"The text before this separator is the key; \t is a tab.",
)
@click.option(
    "--null-marker",
    metavar="TEXT",
    help="A value with this text is written as a tombstone, a key with it as no key.",
)
@click.option(
    "--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="A header for every record."
)
@click.option(
    "--partition", "-p", type=click.IntRange(0), help="Write to this partition.  [default: by the key]"
)
@click.option("--compression", type=click.Choice(COMPRESSION_TYPES), default="none", show_default=True)
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="Which replicas must have a record before it is acknowledged.",
)
@click.option("--quiet", "-q", is_flag=True, help="Don't say how many records were written.")
@json_option
@bootstrap_option
def produce(
    *,
    topic: str,
    source: BinaryIO,
    form: str,
    key_separator: str | None,
    null_marker: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str,
    acks: str,
    quiet: bool,
    as_json: bool,
    servers: str,
) -> None:
    """Write each line of standard input, or of a file, to TOPIC as one record.

    \b
    seq 10 | kohort produce numbers
    kohort produce flights --file flights.csv --key-separator ,
    kohort consume a --from-beginning --exit-at-end --format json | kohort produce b --format json
    """
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    if form == "json" and (key_separator is not None or null_marker is not None):
        raise click.UsageError("--key-separator and --null-marker are for plain lines, not for --format json")
    record_headers = [(name, value.encode()) for name, value in key_values(headers, "--header").items()]
    options: ProducerOptions = {
        "bootstrap_servers": require_broker(servers),
        "client_id": "kohort-cli",
        "acks": acks,
        "compression_type": compression,
        "batch_size": BATCH_BYTES,
        "linger_ms": LINGER_MS,
        "max_block_ms": API_TIMEOUT_MS,
        "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
        "request_timeout_ms": DELIVERY_TIMEOUT_MS // 2,
    }
    options = with_settings(options)
    producer = Producer(**options)
    read = json_record if form == "json" else line_record(_encoded(key_separator), _encoded(null_marker))
    written = 0
    unchecked: deque[Delivery] = deque()
    with producer, _progress(source) as progress:
        for number, line in enumerate(_lines(source), 1):
            record = read(line, number)
            unchecked.append(
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition if partition is None else partition,
                    headers=[*record.headers, *record_headers],
                )
            )
            while unchecked and (unchecked[0].is_done or len(unchecked) > MOST_UNCHECKED):
                unchecked.popleft().result()
                written += 1
            progress.advance(len(line) + 1)
        producer.flush()
        for delivery in unchecked:
            delivery.result()
            written += 1
    if not written:
        with open_admin(servers) as admin:
            # Where nothing was written, too, a topic that is not there is an error.
            admin.describe_topics(topic)
    if as_json:
        print_json({"topic": topic, "records": written})
    elif not quiet:
        print_line(f"{written:,} record{'' if written == 1 else 's'} written to {topic}", err=True)


def _lines(source: BinaryIO) -> Iterator[bytes]:
    for line in source:
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else unescaped(text).encode()


def _progress(source: BinaryIO) -> AbstractContextManager[Progress]:
    """Return a bar on standard error where somebody watches, and nothing types the input."""
    if not sys.stderr.isatty() or source.isatty():
        return nullcontext(_Silent())
    from kohort.cli.progress import LineProgress

    return LineProgress(source, sys.stderr)
