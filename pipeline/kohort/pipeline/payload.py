"""A record's value as columns: JSON, Avro or Protobuf, decoded by Spark's own functions.

A value that cannot be decoded ends no query: it is in the column `undecoded` as it came, which is null
elsewhere. Avro and Protobuf take a jar that Spark publishes beside itself.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType

from kohort.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

JSON, AVRO, PROTOBUF = "json", "avro", "protobuf"
FORMS = (JSON, AVRO, PROTOBUF)
VALUE, UNDECODED = "value", "undecoded"
_CORRUPT = "_corrupt"
_NOT_LOADED = "_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"
"""The condition under which Spark names a function of which it lacks the jar."""
_PERMISSIVE = {"mode": "PERMISSIVE"}


class PayloadError(PipelineError):
    """A description of what values hold that cannot be used, or a decoder that is not there."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What values hold: the form, and its schema; `message` is the name of a Protobuf message."""

    form: str
    schema: str
    message: str = ""

    @property
    def package(self) -> str | None:
        """The coordinates of the jar that decodes it, None where Spark itself does."""
        return None if self.form == JSON else decoder_package(self.form)


def decoder_package(form: str) -> str:
    """Return the coordinates of the jar of Spark that decodes Avro or Protobuf."""
    import pyspark  # noqa: PLC0415  # Its version alone.

    return f"org.apache.spark:spark-{form}_2.13:{pyspark.__version__}"


def parse_payload(text: str) -> Payload:
    """Return what `json:FILE`, `avro:FILE` or `protobuf:FILE:MESSAGE` says.

    The file of json has Spark's schema, as DDL (`carrier string, delay int`) or as Spark's JSON; that of
    avro an Avro schema; that of protobuf is a descriptor set, as protoc --descriptor_set_out makes it.
    Raises: PayloadError.
    """
    form, _, rest = text.partition(":")
    if form not in FORMS or not rest:
        raise PayloadError(f"{text!r}: give json:FILE, avro:FILE or protobuf:FILE:MESSAGE")
    path, message = rest, ""
    if form == PROTOBUF:
        path, _, message = rest.rpartition(":")
        if not path or not message:
            raise PayloadError(f"{text!r}: give protobuf:FILE:MESSAGE, the message with its package")
    try:
        schema = path if form == PROTOBUF else Path(path).read_text(encoding="utf-8")
        if form == PROTOBUF and not Path(path).is_file():
            raise FileNotFoundError(2, "No such file", path)
    except (OSError, UnicodeDecodeError) as error:
        raise PayloadError(f"{path} cannot be read: {error}") from None
    return Payload(form, schema, message)


def _is_nothing(record: Column, kind: DataType) -> Column:
    """Return whether nothing was decoded: Avro and Protobuf make a record of nulls of what is damaged."""
    if not isinstance(kind, StructType) or not kind.names:
        return record.isNull()
    return functools.reduce(operator.and_, (record[name].isNull() for name in kind.names))


def decoded(frame: DataFrame, payload: Payload) -> DataFrame:
    """Return the frame with `value` as a struct, and what could not be decoded in `undecoded`.

    Raises: PayloadError.
    """
    try:
        if payload.form == JSON:
            record, is_damaged = _from_json(F.col(VALUE), payload)
        else:
            record = _DECODERS[payload.form](F.col(VALUE), payload)
            is_damaged = _is_nothing(record, frame.select(record.alias(VALUE)).schema[VALUE].dataType)
        damaged = F.col(VALUE).isNotNull() & is_damaged
        return frame.select(
            *(each for each in frame.columns if each != VALUE),
            F.when(~damaged, record).alias(VALUE),
            F.when(damaged, F.col(VALUE)).alias(UNDECODED),
        )
    except PySparkException as error:
        if _NOT_LOADED in str(error):
            raise PayloadError(
                f"values cannot be decoded as {payload.form}: this Spark session lacks the jar"
                f" {payload.package}, which spark-submit takes as --packages"
            ) from None
        raise PayloadError(f"values cannot be decoded as {payload.form}: {error}") from None


def _from_json(value: Column, payload: Payload) -> tuple[Column, Column]:
    schema = StructType([*_json_schema(payload.schema).fields]).add(_CORRUPT, StringType())
    options = {**_PERMISSIVE, "columnNameOfCorruptRecord": _CORRUPT}
    record = F.from_json(value.cast("string"), schema, options)
    return record.dropFields(_CORRUPT), record.isNull() | record[_CORRUPT].isNotNull()


def _json_schema(text: str) -> StructType:
    try:
        found = StructType.fromJson(json.loads(text)) if text.lstrip().startswith("{") else None
    except (ValueError, KeyError, TypeError) as error:
        raise PayloadError(f"the schema of JSON values is none of Spark's: {error}") from None
    if found is None:
        parsed = StructType.fromDDL(text)
        if not isinstance(parsed, StructType):
            raise PayloadError(f"the schema of JSON values is {parsed.simpleString()}, no list of columns")
        found = parsed
    return found


def _from_avro(value: Column, payload: Payload) -> Column:
    from pyspark.sql.avro.functions import from_avro  # noqa: PLC0415  # Few need it.

    return from_avro(value, payload.schema, _PERMISSIVE)


def _from_protobuf(value: Column, payload: Payload) -> Column:
    from pyspark.sql.protobuf.functions import from_protobuf  # noqa: PLC0415  # Few need it.

    return from_protobuf(value, payload.message, descFilePath=payload.schema, options=_PERMISSIVE)


_DECODERS: dict[str, Callable[[Column, Payload], Column]] = {AVRO: _from_avro, PROTOBUF: _from_protobuf}
