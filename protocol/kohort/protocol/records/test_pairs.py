"""Keys and values read alone are those of the records, and what is damaged is a WireError."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.protocol.errors import WireError
from kohort.protocol.records import build_batch, iterate_records, plain_payload, read_header
from kohort.protocol.records.pairs import read_pairs

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

texts = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), texts), max_size=3)
rows = st.lists(st.tuples(st.integers(-1, 2**40), texts, texts, headers), min_size=1, max_size=20)


@given(rows)
def test_pairs_equal_the_records(rows: list[Row]) -> None:
    batch = build_batch([(time, key, value, tuple(each)) for time, key, value, each in rows])
    header = read_header(batch)
    found = read_pairs(plain_payload(batch, header), header)
    assert found == [(record.key, record.value) for record in iterate_records(batch)]


@given(rows, st.data())
def test_damage_raises_a_wire_error_or_nothing(
    rows: list[Row],
    data: st.DataObject,
) -> None:
    batch = build_batch([(time, key, value, tuple(each)) for time, key, value, each in rows])
    header = read_header(batch)
    payload = bytearray(plain_payload(batch, header))
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(payload)))
    try:
        assert len(read_pairs(bytes(payload[:cut]), header)) == header.record_count
    except WireError:
        return
