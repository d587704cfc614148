import msgspec
import pytest

from kohort.registry.records import (
    ClearSubjectKey,
    ConfigKey,
    ConfigValue,
    DeleteSubjectKey,
    DeleteSubjectValue,
    ModeKey,
    ModeValue,
    NoopKey,
    Record,
    Reference,
    SchemaKey,
    SchemaValue,
    decode,
    encode,
)

RECORDS = [
    Record(SchemaKey("s", 1), SchemaValue("s", 1, 7, '"string"')),
    Record(
        SchemaKey("s", 2),
        SchemaValue("s", 2, 7, "{}", "JSON", (Reference("n", "t", 3),), {"a": 1}, None, True),
    ),
    Record(SchemaKey("s", 1)),
    Record(ConfigKey(None), ConfigValue(None, "FULL")),
    Record(ConfigKey("s"), ConfigValue("s", "NONE", True)),
    Record(ModeKey("s"), ModeValue("IMPORT", "s")),
    Record(DeleteSubjectKey("s"), DeleteSubjectValue("s", 3)),
    Record(ClearSubjectKey("s")),
    Record(NoopKey()),
]


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert decode(*encode(record)) == record


@pytest.mark.parametrize(
    "record, key",
    [
        (RECORDS[0], b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'),
        (RECORDS[3], b'{"keytype":"CONFIG","magic":0}'),
        (RECORDS[5], b'{"keytype":"MODE","subject":"s","magic":0}'),
        (RECORDS[6], b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'),
    ],
)
def test_keys_have_the_bytes_of_confluents_registry(record: Record, key: bytes) -> None:
    assert encode(record)[0] == key


def test_a_value_has_the_deleted_flag_and_omits_empty_fields() -> None:
    assert (
        encode(RECORDS[0])[1] == b'{"subject":"s","version":1,"id":7,"schema":"\\"string\\"","deleted":false}'
    )


def test_records_of_other_registries_are_read() -> None:
    karapace = b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'
    assert decode(*karapace) == Record(ConfigKey(None), ConfigValue(None, "FULL"))
    newer = b'{"subject":"s","version":1,"id":1,"md5":"x","schema":"{}","deleted":false,"guid":"y","ts":1}'
    value = decode(encode(RECORDS[0])[0], newer).value
    assert isinstance(value, SchemaValue)
    assert value.schema == "{}"


@pytest.mark.parametrize(
    "value",
    [
        b'{"subject":"other","version":1,"id":7,"schema":"{}"}',
        b'{"subject":"s","version":2,"id":7,"schema":"{}"}',
        b'{"subject":"s","version":1,"id":7,"schema":"{}","ruleSet":{"a":' + b"[" * 900 + b"]" * 900 + b"}}",
        b'{"subject":"s","version":1,"id":7,"schema":"{}","metadata":' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
    ],
    ids=["of another subject", "of another version", "nested deeply", "nested too deeply to read"],
)
def test_a_value_that_no_registry_would_write_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError):
        decode(encode(RECORDS[0])[0], value)


@pytest.mark.parametrize("key", [b"", b"{}", b"x", b'{"keytype":"OTHER","magic":0}', b'{"keytype":"SCHEMA"}'])
def test_an_invalid_record_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError):
        decode(key, b"{}")
    assert issubclass(msgspec.ValidationError, ValueError)
