"""A record's value as columns: JSON, Avro or Protobuf, decoded by Spark's own functions.

A value that cannot be decoded does not end a query: it is in the column `undecoded` unchanged, which is null
for other rows. Avro and Protobuf need a jar that Spark publishes separately.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructType

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.typed_values import UNDECODED, VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

JSON, AVRO, PROTOBUF = "json", "avro", "protobuf"
FORMS = (JSON, AVRO, PROTOBUF)
REGISTRY = "registry"
_CORRUPT = "_corrupt"
_NOT_LOADED = "_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"
"""The condition under which Spark names a function of which it lacks the jar."""
_PERMISSIVE = {"mode": "PERMISSIVE"}
_END, _END_MARK, _END_NUMBER = "end", b"\xffkohort\xff", 1_801_875_055
"""A marker after the value, which must come out after it; in Avro bytes, in JSON a number."""
_END_TYPE = {"type": "fixed", "name": "kohort_end", "size": len(_END_MARK)}
_AVRO_VERSION = "4.1.1"
"""The newest that is published, which runs on Spark 4.2 as well."""


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

    version = _AVRO_VERSION if form == AVRO else pyspark.__version__
    return f"org.apache.spark:spark-{form}_2.13:{version}"


def registry_of(text: str | None) -> str | None:
    """Return the URL of `registry:URL`: the source decodes these values (`typed_values`). Else None."""
    form, _, url = (text or "").partition(":")
    return url if form == REGISTRY and url else None


def parse_payload(text: str) -> Payload:
    """Return the payload format of `json:FILE`, `avro:FILE` or `protobuf:FILE:MESSAGE`.

    The file of json has Spark's schema, as DDL (`carrier string, delay int`) or as Spark's JSON; that of
    avro an Avro schema; that of protobuf is a descriptor set, as protoc --descriptor_set_out makes it.
    Raises: PayloadError.
    """
    form, _, rest = text.partition(":")
    if form not in FORMS or not rest:
        raise PayloadError(f"{text!r}: give json:FILE, avro:FILE, protobuf:FILE:MESSAGE or registry:URL")
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


def decoded(frame: DataFrame, payload: Payload) -> DataFrame:
    """Return the frame with `value` as a struct, and what could not be decoded in `undecoded`.

    Raises: PayloadError.
    """
    try:
        record, is_sound = _DECODERS[payload.form](F.col(VALUE), payload, frame)
        damaged = F.col(VALUE).isNotNull() & ~is_sound
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
    except Py4JJavaError as error:  # The library that reads the schema says that it is invalid.
        said = error.java_exception.getMessage()
        raise PayloadError(f"values cannot be decoded as {payload.form}: {said}") from None


def _from_json(value: Column, payload: Payload, _frame: DataFrame) -> tuple[Column, Column]:
    """Return the record, and whether it is valid: Spark ignores what follows the first object.

    So the value becomes a field of an object that has another field after it.
    """
    schema = StructType().add(VALUE, _json_schema(payload.schema)).add(_END, IntegerType())
    options = {**_PERMISSIVE, "columnNameOfCorruptRecord": _CORRUPT}
    text = F.concat(F.lit(f'{{"{VALUE}":'), value.cast("string"), F.lit(f',"{_END}":{_END_NUMBER}}}'))
    found = F.from_json(text, schema.add(_CORRUPT, StringType()), options)
    is_whole = F.coalesce(found[_END] == _END_NUMBER, F.lit(False))
    return found[VALUE], found[VALUE].isNotNull() & found[_CORRUPT].isNull() & is_whole


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


def _from_avro(value: Column, payload: Payload, _frame: DataFrame) -> tuple[Column, Column]:
    """Return the record, and whether it is valid: the marker after the value must come out after it.

    Spark makes a record of nulls out of unreadable bytes, which could also be a valid record; and it
    ignores bytes that are left over.
    """
    from pyspark.sql.avro.functions import from_avro  # noqa: PLC0415  # Few need it.

    try:
        fields = [{"name": VALUE, "type": json.loads(payload.schema)}, {"name": _END, "type": _END_TYPE}]
    except ValueError as error:
        raise PayloadError(f"the schema of Avro values is no JSON: {error}") from None
    both = json.dumps({"type": "record", "name": "kohort_value_and_end", "fields": fields})
    found = from_avro(F.concat(value, F.lit(_END_MARK)), both, _PERMISSIVE)
    return found[VALUE], F.coalesce(found[_END] == F.lit(_END_MARK), F.lit(False))


def _from_protobuf(value: Column, payload: Payload, frame: DataFrame) -> tuple[Column, Column]:
    """Return the message, and whether it is valid, as far as that is known.

    Spark makes a message of nulls out of unreadable bytes. A valid message of nulls has no bytes, or has
    only fields that its schema does not know.
    """
    from pyspark.sql.protobuf.functions import from_protobuf  # noqa: PLC0415  # Few need it.

    found = from_protobuf(value, payload.message, descFilePath=payload.schema, options=_PERMISSIVE)
    return found, (F.length(value) == 0) | _has_something(found, frame)


def _has_something(record: Column, frame: DataFrame) -> Column:
    """Return whether a record that is computed from a frame has any field."""
    kind = frame.select(record.alias(VALUE)).schema[VALUE].dataType
    names = kind.names if isinstance(kind, StructType) else []
    return functools.reduce(operator.or_, (record[name].isNotNull() for name in names), F.lit(False))


_DECODERS: dict[str, Callable[[Column, Payload, DataFrame], tuple[Column, Column]]] = {
    JSON: _from_json,
    AVRO: _from_avro,
    PROTOBUF: _from_protobuf,
}
"""Each returns the record, and whether the value has been decoded as a whole."""
