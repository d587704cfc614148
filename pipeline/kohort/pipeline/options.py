"""The options of `format("kohort")` and `format("kohort-segments")`, checked when a query is planned.

Reading from a broker (`kohort`):
- bootstrap: HOST:PORT, or several with commas between them; bootstrap_servers, bootstrap.servers,
  bootstrapServers and kafka.bootstrap.servers mean the same;
- security_protocol, ssl_..., sasl_... and all other options of kohort's clients, under the same names;
- topics: names separated by commas; or pattern: a regular expression for whole names; or partitions:
  {"topic": [0, 1]};
- starting, ending: where to begin and to end. earliest, latest, group:NAME (the group's committed offset,
  earliest where it has none), timestamp:MILLISECONDS or timestamp:2026-01-31T12:00:00Z (the first record
  that is not older), timestamps:{"topic": {"0": MILLISECONDS}}, or {"topic": {"0": 42}} with -2 for earliest
  and -1 for latest. A batch begins at earliest and ends at latest; a stream begins at latest, and has no end;
- starting_without_record: latest or error, for a partition without a record that is recent enough: latest
  begins at its end;
- max_rows_per_trigger: the largest number of offsets of a micro-batch, shared among the partitions;
- min_rows_per_trigger: how many offsets a micro-batch waits for, trigger_delay_max_ms at most (15 minutes);
- rows_per_partition: the largest number of offsets of one Spark task; without it, one task per partition;
- tasks_min: how many tasks read at least, where there are offsets for them; large ranges are divided;
- fail_on_data_loss: true (missing records are an error) or false (it continues after them);
- include_headers, include_timestamp_type: false or true (one more column, `headers` or `timestampType`);
- schema_registry: the URL of a schema registry, or several of one with commas between them: `value` has the
  columns of the newest schema of value_subject (by default `TOPIC-value`, for one topic), by Avro or JSON
  Schema. value_schema is the text of a schema to read with instead; without a registry all values are by it.
  value_format says what it is, avro or json (a JSON Schema). See `kohort.pipeline.typed_values`;
- isolation_level: read_committed or read_uncommitted;
- check_crcs: true or false; fetch_bytes: how much a fetch asks for; timeout_ms: how long a task goes without
  progress before it fails.

Options of Spark's own Kafka source and sink are taken under their names, see `kohort.pipeline.kafka_options`.

Reading segments (`kohort-segments`): path (a data folder, or its partitions' folders), topics or pattern,
starting, ending, include_headers, include_timestamp_type, isolation_level, check_crcs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kohort.client import TopicPartition
from kohort.client.errors import ConfigurationError
from kohort.pipeline.errors import OptionError
from kohort.pipeline.kafka_options import read_as_kohort, written_as_kohort
from kohort.pipeline.offsets import Offsets, decode_offsets, decode_partitions
from kohort.pipeline.servers import Servers

BOOTSTRAP_NAMES = (
    "bootstrap",
    "bootstrap_servers",
    "bootstrap.servers",
    "bootstrapservers",
    "kafka.bootstrap.servers",
)
NO_TABLES = ". Spark gives the options of CREATE TABLE to no Python source: use CREATE TEMPORARY VIEW"
EARLIEST, LATEST = -2, -1
FETCH_BYTES = 8 << 20
BATCH_BYTES = 512 << 10
TIMEOUT_MS = 60_000
TRIGGER_DELAY_MAX_MS = 15 * 60_000
AVRO, JSON = "AVRO", "JSON"
"""Types of schemas, as a registry names them."""
_SAID_OTHERWISE = ("bootstrap_servers", "sasl_oauth_token_provider")


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Where in its partitions a range begins or ends: one of five ways to say it."""

    end: int | None = None
    """EARLIEST or LATEST."""
    group: str | None = None
    timestamp_ms: int | None = None
    offsets: Offsets | None = None
    timestamps_ms: Offsets | None = None
    """A time for each partition."""
    needs_record: bool = False
    """Whether it is an error that a partition has no record that is recent enough."""


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """Which topics: by their names, or by a pattern for whole names; or which of their partitions."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: frozenset[TopicPartition] | None = None

    def __contains__(self, topic: str) -> bool:
        """Whether a topic is chosen."""
        if self.pattern is None:
            return topic in self.names
        return re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """The schema by which values become columns."""

    registry: tuple[str, ...]
    """The URLs of the schema registry whose ids values begin with; without any they begin with no id."""
    subject: str
    schema: str | None
    """The schema to read with; None for the newest of the subject."""
    form: str
    """The format of that schema: AVRO or JSON."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a reader of a broker."""

    servers: Servers
    topics: TopicChoice
    starting: OffsetSpec
    ending: OffsetSpec
    max_rows_per_trigger: int | None = None
    min_rows_per_trigger: int | None = None
    trigger_delay_max_ms: int = TRIGGER_DELAY_MAX_MS
    rows_per_partition: int | None = None
    tasks_min: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    include_timestamp_type: bool = False
    read_committed: bool = True
    check_crcs: bool = True
    fetch_bytes: int = FETCH_BYTES
    timeout_ms: int = TIMEOUT_MS
    values: ValueOptions | None = None
    """None leaves values as they are."""


@dataclass(frozen=True, slots=True)
class SegmentOptions:
    """The options of a reader of segments."""

    path: str
    topics: TopicChoice
    starting: OffsetSpec
    ending: OffsetSpec
    include_headers: bool = False
    include_timestamp_type: bool = False
    read_committed: bool = True
    check_crcs: bool = True


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a writer: a topic for all rows, or a column `topic` in each."""

    servers: Servers
    topic: str | None = None
    compression: str = "none"
    batch_bytes: int = BATCH_BYTES
    timeout_ms: int = TIMEOUT_MS
    writer: str | None = None
    """A name that stays the same when the same rows are written again; for streams it is the query's id."""
    batch: int | None = None
    """The batch's number under that name, for `foreachBatch`."""
    report: str | None = None
    """A file on the driver: how many rows a job wrote, and how many were there already, as JSON."""


class _Reader:
    """Takes options one by one, and at the end knows the options that were not used."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self._known: list[str] = []

    def text(self, name: str) -> str | None:
        self._known.append(name)
        return self._given.get(name)

    def bootstrap(self) -> str:
        """Return the brokers, from our option or from the option name of other sources and clients."""
        found = {name: value for name in BOOTSTRAP_NAMES if (value := self.text(name))}
        if len(set(found.values())) > 1:
            raise OptionError(f"{' and '.join(found)} differ: give one of them")
        return next(iter(found.values()), "") or self.required("bootstrap", "HOST:PORT of a broker")

    def required(self, name: str, what: str) -> str:
        value = self.text(name)
        if not value:
            raise OptionError(f"the option {name!r} is missing: give {what}{NO_TABLES * (not self._given)}")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = (self.text(name) or choices[0]).lower()
        if value not in choices:
            raise OptionError(f"{name} is {value!r}: give {' or '.join(choices)}")
        return value

    def flag(self, name: str, *, otherwise: bool) -> bool:
        return self.choice(name, ("true", "false") if otherwise else ("false", "true")) == "true"

    def number(self, name: str, *, least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.isdecimal() or int(value) < least:
            raise OptionError(f"{name} is {value!r}: give a whole number from {least} on")
        return int(value)

    def topics(self) -> TopicChoice:
        names, pattern = self.text("topics"), self.text("pattern")
        if (names is None) == (pattern is None):
            raise OptionError("give either topics, names with commas between them, or a pattern for them")
        if names is not None:
            found = tuple(dict.fromkeys(each.strip() for each in names.split(",") if each.strip()))
            if not found:
                raise OptionError("topics is empty")
            return TopicChoice(names=found)
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise OptionError(f"pattern is {pattern!r}: {error}") from None
        return TopicChoice(pattern=pattern)

    def topics_or_partitions(self) -> TopicChoice:
        partitions = self.text("partitions")
        if partitions is None:
            return self.topics()
        if self.text("topics") is not None or self.text("pattern") is not None:
            raise OptionError("give partitions alone, without topics and without a pattern")
        chosen = decode_partitions(partitions)
        return TopicChoice(tuple(sorted({each.topic for each in chosen})), partitions=chosen)

    def values(self, topics: TopicChoice) -> ValueOptions | None:
        given = self.text("schema_registry") or ""
        registry = tuple(each.strip() for each in given.split(",") if each.strip())
        schema, subject = self.text("value_schema"), self.text("value_subject")
        form = self.choice("value_format", (AVRO.lower(), JSON.lower())).upper()
        if not registry and schema is None:
            if subject is not None or self.text("value_format") is not None:
                raise OptionError("value_subject and value_format need schema_registry or value_schema")
            return None
        if schema is None and subject is None:
            if topics.pattern is not None or len(topics.names) != 1:
                raise OptionError("several topics have no one subject: give value_subject or value_schema")
            subject = f"{topics.names[0]}-value"
        return ValueOptions(registry, subject or "", schema, form)

    def servers(self) -> Servers:
        # Each query has its own processes which import all this: those that read files need none of it.
        from kohort.client.addresses import parse_address  # noqa: PLC0415
        from kohort.client.config import ClientConfig, parse_setting  # noqa: PLC0415

        bootstrap = self.bootstrap()
        names = [each for each in ClientConfig.__struct_fields__ if each not in _SAID_OTHERWISE]
        given = {name: value for name in names if (value := self.text(name)) is not None}
        try:
            for each in filter(None, map(str.strip, bootstrap.split(","))):
                parse_address(each)
        except ConfigurationError as error:
            raise OptionError(f"bootstrap: {error}") from None
        try:
            found = Servers(bootstrap, {name: parse_setting(name, value) for name, value in given.items()})
            found.config()
        except ConfigurationError as error:
            raise OptionError(str(error)) from None
        return found

    def finish(self, ignored: tuple[str, ...] = ()) -> None:
        for name in self._given:
            if name not in self._known and name not in ignored:
                import difflib  # noqa: PLC0415  It takes long, and is needed for mistakes alone.

                near = difflib.get_close_matches(name, self._known, n=1, cutoff=0.5)
                raise OptionError(
                    f"unknown option {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
                )


def read_options(given: Mapping[str, str], *, is_stream: bool = False) -> ReadOptions:
    """Return a reader's options. Raises: OptionError."""
    options = _Reader(read_as_kohort(given))
    starting = parse_offset_spec(
        "starting", options.text("starting") or ("latest" if is_stream else "earliest")
    )
    delay_ms = options.number("trigger_delay_max_ms", least=0)
    servers, topics = options.servers(), options.topics_or_partitions()
    found = ReadOptions(
        servers=servers,
        topics=topics,
        starting=replace(
            starting,
            needs_record=options.choice("starting_without_record", ("latest", "error")) == "error",
        ),
        ending=parse_offset_spec("ending", options.text("ending") or "latest"),
        max_rows_per_trigger=options.number("max_rows_per_trigger"),
        min_rows_per_trigger=options.number("min_rows_per_trigger"),
        trigger_delay_max_ms=TRIGGER_DELAY_MAX_MS if delay_ms is None else delay_ms,
        rows_per_partition=options.number("rows_per_partition"),
        tasks_min=options.number("tasks_min"),
        fail_on_data_loss=options.flag("fail_on_data_loss", otherwise=True),
        include_headers=options.flag("include_headers", otherwise=False),
        include_timestamp_type=options.flag("include_timestamp_type", otherwise=False),
        read_committed=_is_committed(options),
        check_crcs=options.flag("check_crcs", otherwise=True),
        fetch_bytes=options.number("fetch_bytes") or FETCH_BYTES,
        timeout_ms=options.number("timeout_ms") or TIMEOUT_MS,
        values=options.values(topics),
    )
    if is_stream and options.text("ending") is not None:
        raise OptionError("a stream has no end: leave out 'ending', and use trigger(availableNow=True)")
    most = found.max_rows_per_trigger
    if most is not None and (found.min_rows_per_trigger or 0) > most:
        raise OptionError(f"min_rows_per_trigger is more than max_rows_per_trigger, {most}")
    options.finish()
    return found


def is_typed(given: Mapping[str, str]) -> bool:
    """Return whether a reader's options name a schema of values."""
    return any(name.lower() in ("schema_registry", "value_schema") for name in given)


def segment_options(given: Mapping[str, str]) -> SegmentOptions:
    """Return the options of a reader of segments. Raises: OptionError."""
    options = _Reader(given)
    found = SegmentOptions(
        path=options.required("path", "the broker's data folder"),
        topics=options.topics(),
        starting=parse_offset_spec("starting", options.text("starting") or "earliest"),
        ending=parse_offset_spec("ending", options.text("ending") or "latest"),
        include_headers=options.flag("include_headers", otherwise=False),
        include_timestamp_type=options.flag("include_timestamp_type", otherwise=False),
        read_committed=_is_committed(options),
        check_crcs=options.flag("check_crcs", otherwise=True),
    )
    if found.starting.group is not None or found.ending.group is not None:
        raise OptionError("segments know no groups: give offsets or a timestamp")
    options.finish()
    return found


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Return a writer's options. Raises: OptionError."""
    options = _Reader(written_as_kohort(given))
    found = WriteOptions(
        servers=options.servers(),
        topic=options.text("topic"),
        compression=options.choice("compression", ("none", "gzip", "snappy", "lz4", "zstd")),
        batch_bytes=options.number("batch_bytes") or BATCH_BYTES,
        timeout_ms=options.number("timeout_ms") or TIMEOUT_MS,
        writer=options.text("writer"),
        batch=options.number("batch", least=0),
        report=options.text("report"),
    )
    if (found.batch is None) != (found.writer is None) and found.batch is not None:
        raise OptionError("batch needs a writer: the name under which the batches are counted")
    options.finish(ignored=("checkpointlocation", "path"))
    return found


def parse_offset_spec(name: str, given: str) -> OffsetSpec:
    """Return the offset that an option names. Raises: OptionError."""
    text = given.strip()
    if text.lower() in {"earliest", "latest"}:
        return OffsetSpec(end=EARLIEST if text.lower() == "earliest" else LATEST)
    kind, _, rest = text.partition(":")
    if text.startswith("{"):
        offsets = decode_offsets(text)
        if any(offset < EARLIEST for offset in offsets.values()):
            raise OptionError(f"{name} has an offset below -2, which is earliest")
        return OffsetSpec(offsets=offsets)
    if kind == "group" and rest:
        return OffsetSpec(group=rest)
    if kind == "timestamps" and rest:
        return OffsetSpec(timestamps_ms=decode_offsets(rest))
    if kind == "timestamp" and rest:
        return OffsetSpec(timestamp_ms=parse_time_ms(name, rest))
    raise OptionError(
        f"{name} is {given!r}: give earliest, latest, group:NAME, timestamp:MILLISECONDS or an ISO 8601 time"
        ' behind timestamp:, or {"topic": {"0": 42}}'
    )


def parse_time_ms(name: str, text: str) -> int:
    """Return a time in ms since 1970, given as ms or as ISO 8601, in UTC unless the text has a zone.

    Raises: OptionError with the option's `name`.
    """
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        example = "2026-01-31T12:00:00Z, or milliseconds"
        raise OptionError(f"{name}: {text!r} is no time: give {example}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _is_committed(options: _Reader) -> bool:
    return options.choice("isolation_level", ("read_committed", "read_uncommitted")) == "read_committed"
