"""Values decoded by Spark's own functions, and what is done with those that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from kohort.pipeline.payload import Payload, PayloadError, decoded, decoder_package, parse_payload

DDL = "carrier string, delay int"
AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "carrier", "type": ["null", "string"]},
            {"name": "delay", "type": ["null", "int"]},
        ],
    }
)
GOOD = b'{"carrier": "AA", "delay": 7}'


def frame_of(spark: SparkSession, *values: bytes | None) -> DataFrame:
    rows = [("flights", number, value) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, "topic string, offset int, value binary")


def test_json_becomes_columns_and_invalid_values_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "flights.ddl").write_text(DDL)
    payload = parse_payload(f"json:{tmp_path}/flights.ddl")
    frame = decoded(frame_of(spark, GOOD, b"no json", None, b'{"delay": "late"}', b"{}"), payload)
    assert frame.columns == ["topic", "offset", "value", "undecoded"]
    rows = frame.orderBy("offset").collect()
    good, damaged, tombstone, wrong, empty = rows
    assert (good.value.carrier, good.value.delay, good.undecoded) == ("AA", 7, None)
    assert (damaged.value, bytes(damaged.undecoded)) == (None, b"no json")
    assert (tombstone.value, tombstone.undecoded) == (None, None)
    assert (wrong.value, bytes(wrong.undecoded)) == (None, b'{"delay": "late"}')
    assert (empty.value.carrier, empty.undecoded) == (None, None)


@pytest.mark.parametrize(
    "value",
    [
        GOOD + GOOD,
        GOOD + b" and more",
        GOOD + b"}",
        b"[" + GOOD + b"," + GOOD + b"]",
        GOOD + b', "end": 1}',
        b"null",
        b"7",
        b"",
        b"\xff\xfe",
    ],
)
def test_json_that_is_not_one_object_is_kept(spark: SparkSession, value: bytes) -> None:
    (row,) = decoded(frame_of(spark, value), Payload("json", DDL)).collect()
    assert (row.value, bytes(row.undecoded)) == (None, value)


def test_a_schema_can_be_sparks_own_json(spark: SparkSession) -> None:
    schema = json.dumps(StructType().add("carrier", "string").jsonValue())
    (row,) = decoded(frame_of(spark, GOOD), Payload("json", schema)).collect()
    assert row.value.asDict() == {"carrier": "AA"}


@pytest.mark.parametrize("schema", ['{"type": "struct"}', "carrier strin", "int"])
def test_a_schema_that_is_none_is_an_error(spark: SparkSession, schema: str) -> None:
    with pytest.raises(PayloadError):
        decoded(frame_of(spark, GOOD), Payload("json", schema))


def test_a_decoder_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "schema").write_bytes(b"")
    payload = Payload("protobuf", str(tmp_path / "schema"), "air.Flight")
    with pytest.raises(PayloadError, match=f"{decoder_package('protobuf')}"):
        decoded(frame_of(spark, GOOD), payload)


def test_avro_becomes_columns_and_invalid_values_are_kept(avro: SparkSession) -> None:
    values = [
        b"\x02\x04AA\x02\x0e",
        b"no avro",
        None,
        b"\x00\x00",  # A sound record, which has nothing but nulls.
        b"\x02\x04AA",
        b"\x02\x04AA\x02\x0e and more",
        b"",
    ]
    frame = decoded(frame_of(avro, *values), Payload("avro", AVRO_SCHEMA))
    good, wrong, tombstone, nulls, short, long, empty = frame.orderBy("offset").collect()
    assert (good.value.carrier, good.value.delay, good.undecoded) == ("AA", 7, None)
    assert (tombstone.value, tombstone.undecoded) == (None, None)
    assert (nulls.value.asDict(), nulls.undecoded) == ({"carrier": None, "delay": None}, None)
    for row in (wrong, short, long, empty):
        assert (row.value, bytes(row.undecoded)) == (None, values[row.offset])


def test_avro_values_need_not_be_records(avro: SparkSession) -> None:
    first, second = decoded(frame_of(avro, b"\x04AA", b"A"), Payload("avro", '"string"')).collect()
    assert (first.value, second.value, bytes(second.undecoded)) == ("AA", None, b"A")


@pytest.mark.parametrize("schema", ["carrier string", '{"type": "recor"}'])
def test_an_avro_schema_that_is_none_is_an_error(avro: SparkSession, schema: str) -> None:
    with pytest.raises(PayloadError, match=r"Avro|avro"):
        decoded(frame_of(avro, GOOD), Payload("avro", schema))


@pytest.mark.parametrize(
    "text, says",
    [
        ("xml:a", "give json:FILE"),
        ("json", "give json:FILE"),
        ("json:", "give json:FILE"),
        ("json:/nowhere/at/all", "cannot be read"),
        ("protobuf:only-a-file", "MESSAGE"),
        ("protobuf:/nowhere:air.Flight", "cannot be read"),
    ],
)
def test_an_invalid_payload_description_is_an_error(text: str, says: str) -> None:
    with pytest.raises(PayloadError, match=says):
        parse_payload(text)
