"""A trace of record batches v2, byte by byte, down to the headers of records.

The batch header has the fields of `kohort.protocol.records.header`. Source: KIP-98; DefaultRecord.java.
"""

# construct is untyped: what checkers infer from its source is not its interface.
# pyright: reportCallIssue=false, reportFunctionMemberAccess=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false

from collections.abc import Callable
from io import BytesIO
from typing import Any

import construct

from kohort.protocol.constructs import OnSpan, ReportedValue, Span, report, trace
from kohort.protocol.errors import WireError
from kohort.protocol.records.compression import decompress
from kohort.protocol.records.header import (
    CRC_COVERS_FROM,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    Compression,
    batch_crc,
    read_header,
)
from kohort.protocol.records.varint import read_varint

_FIXED = {
    "b": ("int8", construct.Int8sb),
    "h": ("int16", construct.Int16sb),
    "i": ("int32", construct.Int32sb),
    "I": ("uint32", construct.Int32ub),
    "q": ("int64", construct.Int64sb),
}


def _fixed(letter: str) -> construct.Construct:
    kind, form = _FIXED[letter]
    return ReportedValue(form, kind)


class Varint(construct.Construct):  # type: ignore[misc]  # construct is untyped
    """A signed integer: zigzag, then seven bits a byte."""

    def __init__(self, part: str = "value") -> None:
        super().__init__()
        self.part = part

    def _parse(self, stream: BytesIO, context: Any, path: str) -> int:
        start = stream.tell()
        with stream.getbuffer() as view:
            data = bytes(view[start : start + 10])
        try:
            number, size = read_varint(data, 0)
        except IndexError:
            raise construct.StreamError("the end inside a variable length integer", path=path) from None
        stream.seek(start + size)
        report(stream, context, path, start, (self.part, "varint", number))
        return number


class VarintSized(construct.Construct):  # type: ignore[misc]  # construct is untyped
    """Bytes or text after a varint length; -1 is null."""

    def __init__(self, *, is_text: bool = False) -> None:
        super().__init__()
        self.is_text = is_text

    def _parse(self, stream: BytesIO, context: Any, path: str) -> str | bytes | None:
        length = Varint("length")._parsereport(stream, context, path)
        if length < 0:
            return None
        start = stream.tell()
        data = bytes(construct.stream_read(stream, length, path))
        value = data.decode() if self.is_text else data
        report(stream, context, path, start, ("value", "string" if self.is_text else "bytes", value))
        return value


class VarintCounted(construct.Construct):  # type: ignore[misc]  # construct is untyped
    """Elements after a varint count."""

    def __init__(self, element: construct.Construct) -> None:
        super().__init__()
        self.element = element

    def _parse(self, stream: BytesIO, context: Any, path: str) -> list[Any]:
        count = Varint("count")._parsereport(stream, context, path)
        if count < 0:
            raise construct.FormatFieldError(f"a count of {count}", path=path)
        return [self.element._parsereport(stream, context, f"{path}[{each}]") for each in range(count)]


BATCH_HEADER = construct.Struct(
    *(
        name / _fixed(letter)
        for name, letter in zip(BatchHeader.__struct_fields__, str(HEADER.format)[1:], strict=True)
    )
)
RECORD_HEADER = construct.Struct("key" / VarintSized(is_text=True), "value" / VarintSized())
RECORD = construct.Struct(
    "length" / Varint(),
    "attributes" / _fixed("b"),
    "timestamp_delta" / Varint(),
    "offset_delta" / Varint(),
    "key" / VarintSized(),
    "value" / VarintSized(),
    "headers" / VarintCounted(RECORD_HEADER),
)
CONTROL_KEY = construct.Struct("version" / _fixed("h"), "type" / _fixed("h"))


def trace_batches(data: bytes, on_span: OnSpan, *, base: int, path: str) -> None:
    """Report every byte of the batches in `data`. The last batch may be cut short, as in fetches.

    Raises: WireError for a damaged batch, after all bytes before it are reported.
    """
    position, number = 0, 0
    while position < len(data):
        name = f"{path}.batches[{number}]"
        overhead = data[position : position + LOG_OVERHEAD_BYTES]
        length = (
            int.from_bytes(overhead[8:], "big", signed=True) if len(overhead) == LOG_OVERHEAD_BYTES else 0
        )
        size = LOG_OVERHEAD_BYTES + max(length, 0)
        if position + size > len(data) and number:  # A fetch response ends at its size limit.
            rest = data[position:]
            on_span(Span(base + position, rest, name, "value", "cut short", rest))
            return
        _trace_batch(data[position : position + size], on_span, base + position, name)
        position += size
        number += 1


def _trace_batch(data: bytes, on_span: OnSpan, base: int, path: str) -> None:
    trace(BATCH_HEADER, data[:HEADER_BYTES], _below(on_span, path), base=base)
    header = read_header(data)
    if header.size_bytes > len(data):
        raise WireError(f"a batch of {header.size_bytes} bytes is cut short at {len(data)}")
    crc = batch_crc(data)
    if crc != header.crc:
        where = base + CRC_COVERS_FROM
        on_span(Span(where, b"", f"{path}.crc", "remark", "", f"damaged: the CRC of these bytes is {crc:#x}"))
    payload = data[HEADER_BYTES:]
    if header.compression is Compression.NONE:
        _trace_records(payload, header, on_span, base + HEADER_BYTES, path)
        return
    kind = f"{header.compression.name.lower()} records"
    on_span(Span(base + HEADER_BYTES, payload, f"{path}.records", "value", kind, payload))
    plain = decompress(header.compression, payload)

    def inside(span: Span) -> None:
        on_span(span._replace(is_decompressed=True))

    _trace_records(plain, header, inside, 0, path)


def _trace_records(data: bytes, header: BatchHeader, on_span: OnSpan, base: int, path: str) -> None:
    stream = BytesIO(data)
    for number in range(header.record_count):
        name = f"{path}.records[{number}]"
        start = stream.tell()
        record, _ = trace(RECORD, stream, _below(on_span, name), base=base)
        position = stream.tell()
        length = record["length"]
        if position - start - _width(length) != length:
            raise WireError(
                f"a record has {position - start - _width(length)} bytes, but its length is {length}"
            )
        if header.is_control and record["key"] is not None:
            trace(CONTROL_KEY, record["key"], _remarks(on_span, name), base=base + start)
    if stream.tell() != len(data):
        raise WireError(f"{len(data) - stream.tell()} bytes follow the last record of a batch")


def _width(length: int) -> int:
    zigzag, width = length << 1 if length >= 0 else (-length << 1) - 1, 1
    while zigzag > 127:
        zigzag >>= 7
        width += 1
    return width


def _below(on_span: OnSpan, path: str) -> Callable[[Span], None]:
    """Return a callback that reports the spans of a part under `path`."""
    return lambda span: on_span(span._replace(path=f"{path}.{span.path}"))


def _remarks(on_span: OnSpan, path: str) -> Callable[[Span], None]:
    """Return a callback for the fields of a control record's key. Their bytes were reported before."""

    def remark(span: Span) -> None:
        on_span(span._replace(path=f"{path}.key.{span.path}", data=b""))

    return remark
