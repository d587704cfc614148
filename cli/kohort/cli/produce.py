"""`kohort produce`: lines into a topic."""

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO, Protocol

import click

from kohort.cli.options import API_TIMEOUT_MS, bootstrap_option, key_values, require_broker
from kohort.cli.output import print_line
from kohort.client import Delivery, Producer
from kohort.client.config import COMPRESSION_TYPES

BATCH_BYTES = 262_144
LINGER_MS = 20
MOST_UNCHECKED = 100_000


class Progress(Protocol):
    """What shows how far a long input has come."""

    def advance(self, size_bytes: int) -> None:
        """Count one more line."""


class _Silent:
    def advance(self, size_bytes: int) -> None:
        pass


@click.command()
@click.argument("topic")
@click.option(
    "--file",
    "-f",
    "source",
    type=click.File("rb"),
    default="-",
    help="Read lines from this file.  [default: standard input]",
)
@click.option("--key-separator", "-k", metavar="TEXT", help="What stands before it in a line is the key.")
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
    help="Who must have a record.",
)
@click.option("--quiet", "-q", is_flag=True, help="Don't say how many records were written.")
@bootstrap_option
def produce(
    *,
    topic: str,
    source: BinaryIO,
    key_separator: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str,
    acks: str,
    quiet: bool,
    servers: str,
) -> None:
    """Write each line of standard input, or of a file, to TOPIC as one record.

    \b
    seq 10 | kohort produce numbers
    kohort produce flights --file flights.csv --key-separator ,
    """
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    record_headers = [(name, value.encode()) for name, value in key_values(headers, "--header").items()]
    producer = Producer(
        bootstrap_servers=require_broker(servers),
        client_id="kohort-cli",
        acks=acks,
        compression_type=compression,
        batch_size=BATCH_BYTES,
        linger_ms=LINGER_MS,
        max_block_ms=API_TIMEOUT_MS,
    )
    written = 0
    unchecked: deque[Delivery] = deque()
    with producer, _progress(source) as progress:
        for number, line in enumerate(_lines(source), 1):
            key, value = _split(line, key_separator, number)
            unchecked.append(
                producer.send(topic, value=value, key=key, partition=partition, headers=record_headers)
            )
            while unchecked and (unchecked[0].is_done or len(unchecked) > MOST_UNCHECKED):
                unchecked.popleft().result()
                written += 1
            progress.advance(len(line) + 1)
        producer.flush()
        for delivery in unchecked:
            delivery.result()
            written += 1
    if not quiet:
        print_line(f"{written:,} record{'' if written == 1 else 's'} written to {topic}", err=True)


def _lines(source: BinaryIO) -> Iterator[bytes]:
    for line in source:
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _split(line: bytes, separator: str | None, number: int) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode())
    if not found:
        shown = line[:60].decode(errors="backslashreplace")
        raise click.ClickException(f"line {number} has no key separator {separator!r}: {shown!r}")
    return key, value


def _progress(source: BinaryIO) -> AbstractContextManager[Progress]:
    """Return a bar on standard error where somebody watches, and nothing types the input."""
    if not sys.stderr.isatty() or source.isatty():
        return nullcontext(_Silent())
    from kohort.cli.progress import LineProgress

    return LineProgress(source, sys.stderr)
