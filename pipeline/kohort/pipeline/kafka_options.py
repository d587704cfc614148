"""Options of Spark's own Kafka source and sink, under their names, as options of `format("kohort")`.

A job of `format("kafka")` does the same with `format("kohort")`. Source: Spark's "Structured
Streaming + Kafka Integration Guide". Names do not depend on case, as Spark's do not.

Where `subscribe`, `subscribePattern` or `assign` chooses the topics, two defaults are Spark's too. Records
of transactions are read uncommitted, unless `kafka.isolation.level` says otherwise. There is a column
`timestampType`.
"""

import re
from collections.abc import Mapping
from functools import cache

from kohort.pipeline.errors import OptionError

PREFIX = "kafka."
CHOICES = {"subscribe": "topics", "subscribepattern": "pattern", "assign": "partitions"}
READ_NAMES = CHOICES | {
    "startingoffsets": "starting",
    "endingoffsets": "ending",
    "startingoffsetsbytimestampstrategy": "starting_without_record",
    "failondataloss": "fail_on_data_loss",
    "includeheaders": "include_headers",
    "maxoffsetspertrigger": "max_rows_per_trigger",
    "minoffsetspertrigger": "min_rows_per_trigger",
    "maxtriggerdelay": "trigger_delay_max_ms",
    "minpartitions": "tasks_min",
    "maxrecordsperpartition": "rows_per_partition",
    "kafkaconsumer.polltimeoutms": "timeout_ms",
    "kafka.isolation.level": "isolation_level",
    "kafka.check.crcs": "check_crcs",
    "kafka.fetch.max.bytes": "fetch_bytes",
}
WRITE_NAMES = {
    "kafka.compression.type": "compression",
    "kafka.batch.size": "batch_bytes",
    "kafka.delivery.timeout.ms": "timeout_ms",
}
BY_TIME = {"startingtimestamp": "starting", "endingtimestamp": "ending"}
BY_TIMES = {"startingoffsetsbytimestamp": "starting", "endingoffsetsbytimestamp": "ending"}
WITHOUT_EFFECT = ("groupidprefix", "fetchoffset.numretries", "fetchoffset.retryintervalms")
"""There is no group, and a question is asked again until `timeout_ms` is over."""
_DURATION = re.compile(r"(\d+) *([a-z]*)")
_UNITS_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
REFUSED = {
    "auto.offset.reset": "startingOffsets says where to begin",
    "key.deserializer": "keys are bytes: cast them to what you want",
    "value.deserializer": "values are bytes: cast them to what you want",
    "key.serializer": "keys are strings or bytes",
    "value.serializer": "values are strings or bytes",
    "enable.auto.commit": "Spark keeps the offsets, and no group",
    "interceptor.classes": "there is no Java client that would call them",
}
"""What Spark refuses too."""


def reads_as_spark(given: Mapping[str, str]) -> bool:
    """Whether the topics are chosen by an option of Spark's Kafka source."""
    return any(name.lower() in CHOICES for name in given)


def read_as_kohort(given: Mapping[str, str]) -> dict[str, str]:
    """Return a reader's options under our names. Raises: OptionError."""
    named = {name.lower(): value for name, value in given.items()}
    found = _by_time(named)
    for name, value in named.items():
        if name in BY_TIME or name in BY_TIMES or name in WITHOUT_EFFECT:
            continue
        ours = READ_NAMES.get(name) or _client_setting(name)
        if ours in found and name in ("startingoffsets", "endingoffsets"):
            continue  # Spark takes the timestamp.
        if ours is not None:
            _put(found, ours, value, name)
    if "maxtriggerdelay" in named:
        found["trigger_delay_max_ms"] = _milliseconds(named["maxtriggerdelay"])
    if reads_as_spark(given):
        found.setdefault("isolation_level", "read_uncommitted")
        found.setdefault("include_timestamp_type", "true")
    return found


def written_as_kohort(given: Mapping[str, str]) -> dict[str, str]:
    """Return a writer's options under our names. Raises: OptionError."""
    found: dict[str, str] = {}
    for name, value in ((name.lower(), value) for name, value in given.items()):
        if name == "includeheaders":
            continue  # Headers are written where the rows have them.
        if name == "kafka.acks" and value.strip().lower() not in ("all", "-1"):
            raise OptionError(f"kafka.acks is {value!r}: rows are always written with acks=all")
        ours = WRITE_NAMES.get(name) or _client_setting(name)
        if ours is not None:
            _put(found, ours, value, name)
    return found


def _by_time(named: Mapping[str, str]) -> dict[str, str]:
    """Return starting and ending where they are times. A time for all partitions goes first."""
    found: dict[str, str] = {}
    for name, ours in BY_TIME.items():
        if name in named:
            value = named[name].strip()
            if not value.isdecimal():
                raise OptionError(f"{name} is {value!r}: give milliseconds since 1970")
            found[ours] = f"timestamp:{value}"
    for name, ours in BY_TIMES.items():
        if name in named:
            found.setdefault(ours, f"timestamps:{named[name].strip()}")
    if "starting" in found:
        found["starting_without_record"] = "error"  # The strategy, where one is given, replaces it.
    return found


def _milliseconds(given: str) -> str:
    """Return a duration such as 15m or 30s in milliseconds, which no unit means. Raises: OptionError."""
    match = _DURATION.fullmatch(given.strip().lower())
    if match is None or match[2] not in _UNITS_MS:
        raise OptionError(f"{given!r} is no duration: give one such as 500ms, 30s or 15m")
    return str(int(match[1]) * _UNITS_MS[match[2]])


def _put(found: dict[str, str], ours: str, value: str, name: str) -> None:
    if found.get(ours, value) != value and ours != "starting_without_record":
        raise OptionError(f"{name} and another option for {ours} differ: give one of them")
    found[ours] = value


def _client_setting(name: str) -> str | None:
    """Return our name of an option; None for a setting of Kafka's clients that has no effect here."""
    if not name.startswith(PREFIX) or name == "kafka.bootstrap.servers":
        return name
    setting = name.removeprefix(PREFIX)
    if setting in REFUSED:
        raise OptionError(f"{name} cannot be set: {REFUSED[setting]}")
    used, known = _settings()
    ours = setting.replace(".", "_")
    if ours in used:
        return ours
    if ours in known:
        return None
    return name  # The reader of options says that it does not know it.


@cache
def _settings() -> tuple[frozenset[str], frozenset[str]]:
    """Return the settings of every client, and all that Kafka's consumers and producers have here."""
    from kohort.client.config import ClientConfig, ConsumerOptions, ProducerOptions  # noqa: PLC0415

    known = {*ConsumerOptions.__annotations__, *ProducerOptions.__annotations__}
    return frozenset(ClientConfig.__struct_fields__), frozenset(known)
