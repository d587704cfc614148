"""`kohort consume`: records of topics, as lines."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import cast

import click

from kohort.cli.client_settings import ReaderCommand, reader_settings, take_properties
from kohort.cli.completion import complete_groups, complete_share_groups, complete_topics
from kohort.cli.formats import Format, make_format
from kohort.cli.options import API_TIMEOUT_MS, bootstrap_option, json_option, require_broker
from kohort.cli.output import print_line
from kohort.client import BrokerError, Consumer, ConsumerRecord, TopicPartition
from kohort.client.config import ConsumerOptions, consumer_config
from kohort.protocol.errors import ErrorCode

POLL_MS = 1_000


class _OffsetType(click.ParamType[int | str]):
    """earliest, latest, or a number."""

    name = "offset"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text in {"earliest", "latest"}:
            return text
        if not text.isdecimal():
            self.fail(f"{text!r} is not an offset: give earliest, latest or a number", param, ctx)
        return int(text)


@click.command(cls=ReaderCommand)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topics)
@click.option(
    "--group", "-g", shell_complete=complete_groups, help="Read as a member of this group, and commit."
)
@click.option(
    "--share",
    metavar="GROUP",
    shell_complete=complete_share_groups,
    help="Read as a member of this share group, and accept what is printed.",
)
@click.option(
    "--from-beginning", is_flag=True, help="Begin with the first record, where no offset is committed."
)
@click.option("--max-messages", "-n", type=click.IntRange(1), help="Stop after this many records.")
@click.option(
    "--format",
    "form",
    default="value",
    show_default=True,
    help="value, key-value, json, or a template such as '{key}: {value}'.",
)
@click.option(
    "--partition",
    "-p",
    "partitions",
    multiple=True,
    type=click.IntRange(0),
    help="Read only this partition; may be repeated.",
)
@click.option("--offset", type=_OffsetType(), help="Begin at earliest, latest or this offset.")
@click.option(
    "--exit-at-end", "-e", is_flag=True, help="Stop at the end offsets that the partitions had at the start."
)
@click.option("--timeout-ms", type=click.IntRange(1), help="Stop after this time without records.")
@click.option(
    "--schema-registry",
    metavar="URL",
    help="Show Avro, JSON Schema and Protocol Buffers as JSON, by the schemas of this registry.",
)
@click.option("--quiet", "-q", is_flag=True, help="Don't say how many records were read.")
@click.option(
    "--property",
    "--consumer-property",
    "--command-property",
    metavar="NAME=VALUE",
    multiple=True,
    callback=take_properties,
    expose_value=False,
    help="A setting of the consumer under Kafka's name, such as fetch.min.bytes; may be repeated.",
)
@json_option
@bootstrap_option
def consume(
    *,
    topics: tuple[str, ...],
    group: str | None,
    share: str | None,
    from_beginning: bool,
    max_messages: int | None,
    form: str,
    partitions: tuple[int, ...],
    offset: int | str | None,
    exit_at_end: bool,
    timeout_ms: int | None,
    schema_registry: str | None,
    quiet: bool,
    as_json: bool,
    servers: str,
) -> None:
    """Print the records of topics, one on a line, until Ctrl-C.

    Without --group it reads all partitions from their ends, and commits nothing. --json is --format json.

    \b
    kohort consume numbers --from-beginning --max-messages 10
    kohort consume flights --group readers --format '{partition}@{offset} {key} {value}'
    kohort consume jobs --share workers --max-messages 10
    kohort consume payments --from-beginning --property isolation.level=read_committed
    """
    settings = reader_settings()
    group = group or _text(settings.get("group_id")) if share is None else group
    _check_settings(settings, group, share, from_beginning=from_beginning, offset=offset)
    if share is not None and (group or partitions or offset is not None or from_beginning or exit_at_end):
        raise click.UsageError(
            "--share is for a share group, which says itself where it begins (share.auto.offset.reset) and"
            " who gets what: leave out --group, --partition, --offset, --from-beginning and --exit-at-end"
        )
    if group is not None and (partitions or offset is not None):
        raise click.UsageError("--partition and --offset are for reading without --group")
    if from_beginning and offset is not None:
        raise click.UsageError("give --from-beginning or --offset, not both")
    if group is not None and exit_at_end:
        raise click.UsageError(
            "--exit-at-end is for reading without --group: other members may read the rest"
        )
    if as_json and form not in {"value", "json"}:
        raise click.UsageError("give --json or --format, not both")
    show = make_format("json" if as_json else form, to_terminal=sys.stdout.isatty())
    if schema_registry is not None:
        from kohort.cli.schema_texts import with_schemas  # Others don't pay for it.

        show = with_schemas(show, schema_registry)
    options: ConsumerOptions = {
        "bootstrap_servers": require_broker(servers),
        "client_id": "kohort-cli",
        "default_api_timeout_ms": API_TIMEOUT_MS,
        "auto_offset_reset": "earliest" if from_beginning or offset == "earliest" else "latest",
        "allow_auto_create_topics": False,
    }
    if group is not None:
        options["group_id"] = group
        options["group_instance_id"] = None  # Not the environment's: in a pod that is the worker's own.
    options = cast(ConsumerOptions, {**options, **settings})
    if share is None:
        consumer_config(options)  # What does not fit is said before a broker is asked.
    signal.signal(signal.SIGTERM, _interrupt)
    counter = _Counter(max_messages)
    try:
        if share is not None:
            from kohort.cli.consume_share import print_shared  # Others don't pay for it.

            print_shared(topics, share, servers, show, counter, timeout_ms=timeout_ms)
        else:
            with Consumer(**options) as consumer:
                _begin(consumer, topics, group, partitions, offset)
                if exit_at_end:
                    _print_to_the_end(consumer, show, counter)
                else:
                    _print_records(consumer, show, counter, timeout_ms)
    except KeyboardInterrupt:
        pass  # That is how one ends it; the consumer has committed and left its group.
    except BrokenPipeError:
        # Who reads our output has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if not quiet:
        print_line(f"{counter.count:,} record{'' if counter.count == 1 else 's'} read", err=True)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _check_settings(
    settings: Mapping[str, object],
    group: str | None,
    share: str | None,
    *,
    from_beginning: bool,
    offset: int | str | None,
) -> None:
    """Return if the consumer's settings go with the options. Raises: click.UsageError."""
    named = settings.get("group_id")
    if named is not None and named != (share or group):
        raise click.UsageError(f"group.id is {named!r}, and the option says {share or group!r}: give one")
    begins = settings.get("auto_offset_reset")
    wanted = "earliest" if from_beginning or offset == "earliest" else offset
    if begins is not None and wanted is not None and begins != wanted:
        raise click.UsageError(f"auto.offset.reset is {begins!r}, and an option says {wanted!r}: give one")


class _Counter:
    """How many records were printed, and how many may be."""

    def __init__(self, most: int | None) -> None:
        self.count = 0
        self._most = most

    @property
    def left(self) -> int | None:
        return None if self._most is None else self._most - self.count


def _begin(
    consumer: Consumer,
    topics: tuple[str, ...],
    group: str | None,
    partitions: tuple[int, ...],
    offset: int | str | None,
) -> None:
    existing = [each for topic in topics for each in consumer.partitions_for(topic)]
    if group is not None:
        consumer.subscribe(*topics)
        return
    wanted = [each for each in existing if not partitions or each.partition in partitions]
    missing = [TopicPartition(topic, each) for topic in topics for each in partitions]
    for each in missing:
        if each not in existing:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {each} does not exist")
    consumer.assign(*wanted)
    if isinstance(offset, int):
        for each in wanted:
            consumer.seek(each, offset)


def _print_to_the_end(consumer: Consumer, show: Format, counter: _Counter) -> None:
    """Print what lies before the ends as they are now; who writes meanwhile does not hold this up."""
    assigned = consumer.assignment()
    ends = consumer.end_offsets(*assigned) if assigned else {}
    while counter.left != 0:
        left = [each for each in consumer.assignment() if consumer.position(each) < ends[each]]
        if not left:
            return
        records = consumer.poll(timeout_ms=POLL_MS, max_records=_at_most(counter.left))
        before_the_end = [
            each for each in records if each.offset < ends[TopicPartition(each.topic, each.partition)]
        ]
        _print(consumer, show, counter, before_the_end)


def _print_records(consumer: Consumer, show: Format, counter: _Counter, timeout_ms: int | None) -> None:
    """Print until the count is reached or nothing comes any more; what is printed counts as consumed."""
    while counter.left != 0:
        records = consumer.poll(timeout_ms=timeout_ms or POLL_MS, max_records=_at_most(counter.left))
        if not records and timeout_ms is not None:
            return
        _print(consumer, show, counter, records)


def _print(consumer: Consumer, show: Format, counter: _Counter, records: Sequence[ConsumerRecord]) -> None:
    out = sys.stdout.buffer
    printed = 0
    try:
        for record in records:
            out.write(show(record) + b"\n")
            printed += 1
        out.flush()
    finally:
        counter.count += printed
        for record in reversed(records[printed:]):  # Interrupted: the rest is for whoever reads next.
            consumer.seek(TopicPartition(record.topic, record.partition), record.offset)


def _at_most(left: int | None) -> int | None:
    return None if left is None else min(left, 500)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
