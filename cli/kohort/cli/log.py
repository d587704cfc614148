"""`kohort log`: the files of a data folder, without a broker."""

import base64
import json
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import click
from msgspec import structs

from kohort.broker.metadata.file import FILE_NAME, MetadataFile
from kohort.cli.lazy import CommandGroup
from kohort.cli.options import json_option
from kohort.cli.output import print_encoded, print_json, print_line
from kohort.cli.progress import ByteProgress
from kohort.storage import OsFileSystem, StorageError
from kohort.storage.dump import DumpOptions, Line, dump
from kohort.storage.verify import Report, VerifyOptions, log_bytes, verify_data

PROBLEMS_FOUND = 1
MEGABYTE = 1_000_000
PATH = click.Path(exists=True, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group(cls=CommandGroup)
def log() -> None:
    """Inspect the files of a data folder, without a broker."""


@log.command("dump")
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, required=True, type=PATH)
@click.option("--deep", is_flag=True, help="Also print every record, with its key and its payload.")
@click.option("--offsets-decoder", is_flag=True, help="Print the records of __consumer_offsets as JSON.")
@click.option(
    "--index-sanity-check", is_flag=True, help="Only check whether a start would accept the indexes."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@json_option
def dump_command(
    *,
    paths: tuple[Path, ...],
    deep: bool,
    offsets_decoder: bool,
    index_sanity_check: bool,
    form: str,
    as_json: bool,
) -> None:
    """Print the content of log files, indexes, snapshots and checkpoints, as kafka-dump-log does.

    The exit code is 1 when something in them is wrong. --json is --format json: an object on each line.

    \b
    kohort log dump kohort-data/orders-0 --deep
    kohort log dump kohort-data/__consumer_offsets-7 --offsets-decoder
    kohort log dump kohort-data/orders-0/00000000000000000000.log --json
    """
    options = DumpOptions(deep=deep, offsets=offsets_decoder, index_sanity_check=index_sanity_check)
    complaints = 0
    for path in paths:
        try:
            complaints += _print_lines(dump(OsFileSystem(), path, options), "json" if as_json else form)
        except StorageError as error:
            raise click.ClickException(str(error)) from None
    if complaints:
        sys.stdout.flush()
        raise click.exceptions.Exit(PROBLEMS_FOUND)


def _print_lines(lines: Iterable[Line], form: str) -> int:
    """Print lines, and return how many of them complain."""
    complaints = 0
    for line in lines:
        complaints += line.kind == "complaint"
        if form == "text":
            print_line(line.text)
        else:
            print_encoded(_json(line))
    return complaints


def _json(line: Line) -> str:
    fields = {name: _json_value(value) for name, value in line.fields.items()}
    return json.dumps({"type": line.kind, **fields}, ensure_ascii=False)


def _json_value(value: object) -> object:
    """Return bytes as text, or where they are none as {"base64": ...}; anything else as it is."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


@log.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--deep", is_flag=True, help="Also decode every record: slower.")
@click.option("--compacted", multiple=True, metavar="TOPIC", help="A topic that may have gaps; repeatable.")
@json_option
def verify(*, folder: Path, deep: bool, compacted: tuple[str, ...], as_json: bool) -> None:
    """Check a data folder, or one partition's: CRCs, order, gaps, indexes, timestamps, leader epochs.

    Everything is read and nothing is changed. The exit code is 1, with a list on standard output, when
    something is wrong. A killed broker leaves damage that its next start repairs: it is
    listed, too. Topics whose cleanup.policy says compact may have gaps.
    """
    file_system = OsFileSystem()
    began = time.monotonic()
    try:
        options = VerifyOptions(deep=deep, compacted={*compacted, *_compacted_topics(folder)})
        total = log_bytes(file_system, folder)
        with _progress(total) as bar:
            report = verify_data(file_system, folder, options, bar.advance if bar else lambda size: None)
    except StorageError as error:
        raise click.ClickException(str(error)) from None
    seconds = max(time.monotonic() - began, 1e-9)
    if as_json:
        problems = [{"path": str(each.path), "text": each.text} for each in report.problems]
        print_json({**structs.asdict(report), "seconds": round(seconds, 3), "problems": problems})
    else:
        _print_report(report, seconds)
    if report.problems:
        sys.stdout.flush()
        raise click.exceptions.Exit(PROBLEMS_FOUND)


def _print_report(report: Report, seconds: float) -> None:
    """Print every problem on a line, and what was looked at on the last."""
    for problem in report.problems:
        print_line(str(problem))
    count = len(report.problems)
    megabytes = report.size_bytes / MEGABYTE
    looked_at = ", ".join(
        (
            _count(report.partitions, "partition"),
            _count(report.segments, "segment"),
            _count(report.batches, "batch", "batches"),
            _count(report.records, "record"),
        )
    )
    verdict = _count(count, "problem") if count else "nothing is wrong"
    print_line(
        f"{looked_at}, {megabytes:,.1f} MB in {seconds:.2f} s ({megabytes / seconds:,.0f} MB/s): {verdict}"
    )


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _compacted_topics(folder: Path) -> set[str]:
    """Return the topics that a broker's metadata calls compacted; a partition's folder has none above it."""
    for place in (folder, folder.parent):
        if (place / FILE_NAME).exists():
            topics = MetadataFile(OsFileSystem(), place).load().topics
            return {each.name for each in topics if "compact" in each.configs.get("cleanup.policy", "")}
    return set()


def _progress(total_bytes: int) -> "ByteProgress | nullcontext[None]":
    """Return a bar where somebody looks, and nothing where the output goes to a file or a pipe."""
    return ByteProgress(sys.stderr, total_bytes) if sys.stderr.isatty() else nullcontext()
