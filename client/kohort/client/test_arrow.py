"""Tables of what was read."""

import sys

import pytest

from kohort.client.columns import decode_columns
from kohort.client.errors import MissingExtraError
from kohort.client.extras import require_arrow
from kohort.client.values import TopicPartition
from kohort.protocol.records import Compression, build_batch

pa = pytest.importorskip("pyarrow")


def test_a_table_holds_every_field_of_the_records() -> None:
    table_of = require_arrow()
    records = [
        (1_000, b"key", b"value", (("h\u00fc", b"1"), ("none", None))),
        (-1, None, None, ()),
        (2_000, b"", b"", (("h", b""),)),
    ]
    one = build_batch(records, base_offset=5, compression=Compression.ZSTD)
    chunks = [(TopicPartition("t", 3), each) for each in decode_columns(one)]
    chunks += [(TopicPartition("u", 0), each) for each in decode_columns(build_batch([(7, None, b"x", ())]))]
    table = table_of(chunks)
    table.validate(full=True)
    rows = table.to_pylist()
    assert [(each["topic"], each["partition"], each["offset"]) for each in rows] == [
        ("t", 3, 5),
        ("t", 3, 6),
        ("t", 3, 7),
        ("u", 0, 0),
    ]
    assert [(each["key"], each["value"]) for each in rows] == [
        (b"key", b"value"),
        (None, None),
        (b"", b""),
        (None, b"x"),
    ]
    assert table["timestamp"].cast("int64").to_pylist() == [1_000, None, 2_000, 7]
    assert [[(header["key"], header["value"]) for header in each["headers"]] for each in rows] == [
        [("h\u00fc", b"1"), ("none", None)],
        [],
        [("h", b"")],
        [],
    ]


def test_a_table_of_nothing_has_the_columns() -> None:
    table = require_arrow()([])
    assert (table.num_rows, table.column_names) == (
        0,
        ["topic", "partition", "offset", "timestamp", "key", "value", "headers"],
    )


def test_a_read_from_the_middle_of_a_batch_gives_a_valid_table() -> None:
    records = [
        (1, b"%d" % each, None if each % 3 else b"v" * each, (("h", b"x"),) * (each % 2))
        for each in range(20)
    ]
    (columns,) = decode_columns(build_batch(records), fetch_offset=13)
    table = require_arrow()([(TopicPartition("t", 0), columns)])
    table.validate(full=True)
    assert table["offset"].to_pylist() == list(range(13, 20))
    assert [len(each) for each in table["headers"].to_pylist()] == [each % 2 for each in range(13, 20)]


@pytest.mark.parametrize("name", ["pyarrow", "numpy"])
def test_without_the_extra_the_error_names_the_package_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("kohort.client.arrow", "kohort.client.columns"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kohort\[arrow\]'"):
        require_arrow()
