"""A construct `Struct` per message and version, generated from the same declaration.

`kohort wire` prints messages with it byte by byte, and tests compare the compiled codec with it. It is slow
(58 us where the compiled codec takes 2) and construct takes 5 MB of memory: no broker or client imports it.
"""

# construct is untyped: what checkers infer from its source is not its interface.
# pyright: reportCallIssue=false, reportFunctionMemberAccess=false, reportAttributeAccessIssue=false

from collections.abc import Callable, Mapping
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple, cast
from uuid import UUID

import construct

from kohort.protocol.compiler import check_version, fields_in, tags_of_other_versions
from kohort.protocol.errors import EncodeError, WireError
from kohort.protocol.schema import Field, M, Message, Wire
from kohort.protocol.varint import MAX_STRING_BYTES, encode_uvarint, read_uvarint

TAGGED_FIELDS = "tagged_fields"
BEGINNING = "(parsing)"  # construct's name of the outermost struct.


class Span(NamedTuple):
    """Bytes that were read: their position, their field, and their value."""

    start: int
    data: bytes
    path: str
    """The field within the message, such as `topics[0].partitions[2].error_code`."""
    part: str
    """The part of the field: `value`, `length`, `count`, `flag`, `tag`, `size` or `tags`."""
    kind: str
    """The encoding, such as `int32`, `compact string` or `uvarint`."""
    value: Any
    is_decompressed: bool = False
    """Whether `start` is a position in a batch's decompressed records."""


OnSpan = Callable[[Span], None]


def report(stream: BytesIO, context: Any, path: str, start: int, found: tuple[str, str, Any]) -> None:
    """Call `on_span`, if given, with the bytes since `start`; `found` is part, encoding and value."""
    on_span: OnSpan | None = context._params.get("on_span")
    if on_span is not None:
        with stream.getbuffer() as view:
            data = bytes(view[start : stream.tell()])
        name = path.removeprefix(BEGINNING).removeprefix(" -> ").replace(" -> ", ".")
        on_span(Span(context._params.get("base", 0) + start, data, name, *found))


_FIXED = {
    "bool": construct.Flag,
    "int8": construct.Int8sb,
    "int16": construct.Int16sb,
    "uint16": construct.Int16ub,
    "int32": construct.Int32sb,
    "int64": construct.Int64sb,
    "float64": construct.Float64b,
}


class ReportedValue(construct.Subconstruct):  # type: ignore[misc]  # construct is untyped
    """A value of fixed width whose bytes are reported."""

    def __init__(self, subcon: construct.Construct, kind: str) -> None:
        super().__init__(subcon)
        self.kind = kind

    def _parse(self, stream: BytesIO, context: Any, path: str) -> Any:
        start = stream.tell()
        value = self.subcon._parsereport(stream, context, path)
        report(stream, context, path, start, ("value", self.kind, value))
        return value


class Uvarint(construct.Construct):  # type: ignore[misc]  # construct is untyped
    """An unsigned varint of 32 bits. construct's own VarInt has no limit."""

    def _parse(self, stream: BytesIO, context: Any, path: str) -> int:
        with stream.getbuffer() as view:
            start = stream.tell()
            try:
                number, size = read_uvarint(view[start : start + 5], 0)
            except IndexError:
                raise construct.StreamError("the end inside a variable length integer", path=path) from None
        stream.seek(start + size)
        return number

    def _build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        data = encode_uvarint(obj)
        construct.stream_write(stream, data, len(data), path)
        return obj


UVARINT = Uvarint()


class Sized(construct.Construct):  # type: ignore[misc]  # construct is untyped
    """Bytes or text after a length; -1 is null, and compact lengths are one higher."""

    def __init__(self, kind: str, compact: bool, nullable: bool) -> None:
        super().__init__()
        self.text, self.compact, self.nullable = kind == "string", compact, nullable
        self.kind = f"compact {kind}" if compact else kind
        self.length = UVARINT if compact else construct.Int16sb if self.text else construct.Int32sb

    def _parse(self, stream: BytesIO, context: Any, path: str) -> str | bytes | None:
        length = read_length(self, stream, context, path)
        if length is None:
            return None
        self._check(length, path)
        start = stream.tell()
        taken = construct.stream_read(stream, length, path)
        value = taken.decode() if self.text else bytes(taken)
        report(stream, context, path, start, ("value", self.kind, value))
        return value

    def _build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        data = obj.encode() if isinstance(obj, str) else obj
        self._check(len(data or b""), path)
        write_length(self, None if data is None else len(data), stream, context, path)
        if data is not None:
            construct.stream_write(stream, bytes(data), len(data), path)
        return obj

    def _check(self, length: int, path: str) -> None:
        if self.text and length > MAX_STRING_BYTES:
            raise construct.FormatFieldError(
                f"a string of {length} bytes; the limit is {MAX_STRING_BYTES}", path=path
            )


class Counted(construct.Construct):  # type: ignore[misc]  # construct is untyped
    """Elements after their count; -1 is null, and compact counts are one higher."""

    def __init__(self, element: construct.Construct, compact: bool, nullable: bool) -> None:
        super().__init__()
        self.element, self.compact, self.nullable = element, compact, nullable
        self.kind = "compact array" if compact else "array"
        self.length = UVARINT if compact else construct.Int32sb

    def _parse(self, stream: BytesIO, context: Any, path: str) -> list[Any] | None:
        count = read_length(self, stream, context, path)
        if count is None:
            return None
        return [self.element._parsereport(stream, context, f"{path}[{each}]") for each in range(count)]

    def _build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        write_length(self, None if obj is None else len(obj), stream, context, path)
        for each in obj or ():
            self.element._build(each, stream, context, path)
        return obj


class Optional(construct.Construct):  # type: ignore[misc]  # construct is untyped
    """A struct after one signed byte: below zero is null. For a tagged struct, 0 in a varint is null."""

    def __init__(self, inner: construct.Construct, is_tagged: bool) -> None:
        super().__init__()
        self.inner, self.is_tagged = inner, is_tagged
        self.flag = UVARINT if is_tagged else construct.Int8sb

    def _parse(self, stream: BytesIO, context: Any, path: str) -> Any:
        start = stream.tell()
        flag = self.flag._parsereport(stream, context, path)
        report(stream, context, path, start, ("flag", "uvarint" if self.is_tagged else "int8", flag))
        is_null = not 0 < flag <= 0x7FFFFFFF if self.is_tagged else flag < 0
        return None if is_null else self.inner._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        self.flag._build(1 if obj is not None else 0 if self.is_tagged else -1, stream, context, path)
        if obj is not None:
            self.inner._build(obj, stream, context, path)
        return obj


class Tagged(construct.Construct):  # type: ignore[misc]  # construct is untyped
    """Tagged fields (KIP-482): a count, then tag, size and value of each.

    Unknown tags are skipped. Tags of other versions are refused.
    """

    def __init__(self, fields: Mapping[int, tuple[str, construct.Construct]], others: list[int]) -> None:
        super().__init__()
        self.fields, self.others = fields, others

    def _parse(self, stream: BytesIO, context: Any, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(self._number(stream, context, path, "tags")):
            tag = self._number(stream, context, path, "tag")
            name, subcon = self.fields.get(tag, (f"tag {tag}", None))
            inner = f"{path.removesuffix(TAGGED_FIELDS)}{name}"
            size = self._number(stream, context, inner, "size")
            start = stream.tell()
            data = bytes(construct.stream_read(stream, size, inner))
            if tag in self.others:
                raise construct.FormatFieldError(f"tag {tag} belongs to other versions", path=path)
            if subcon is None:
                report(stream, context, inner, start, ("value", "unknown tagged field", data))
            else:
                found[name] = self._inside(subcon, data, start, context, inner)
        return found

    @staticmethod
    def _number(stream: BytesIO, context: Any, path: str, part: str) -> int:
        start = stream.tell()
        number: int = UVARINT._parsereport(stream, context, path)
        report(stream, context, path, start, (part, "uvarint", number))
        return number

    @staticmethod
    def _inside(subcon: construct.Construct, data: bytes, start: int, context: Any, path: str) -> Any:
        """Return the value of one tagged field, whose bytes begin at `start` of the message."""
        parameters = context._params
        base = parameters.get("base", 0)
        parameters["base"] = base + start
        stream = BytesIO(data)
        value = subcon._parsereport(stream, context, path)
        parameters["base"] = base
        _check_end(stream, data)
        return value

    def _build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        UVARINT._build(len(obj), stream, context, path)
        for tag, (name, subcon) in self.fields.items():
            if name in obj:
                data = subcon.build(obj[name])
                UVARINT._build(tag, stream, context, path)
                UVARINT._build(len(data), stream, context, path)
                construct.stream_write(stream, data, len(data), path)
        return obj


class UuidBytes(construct.Construct):  # type: ignore[misc]  # construct is untyped
    """Sixteen bytes, the most significant first."""

    def _parse(self, stream: BytesIO, context: Any, path: str) -> UUID:
        start = stream.tell()
        value = UUID(bytes=bytes(construct.stream_read(stream, 16, path)))
        report(stream, context, path, start, ("value", "uuid", value))
        return value

    def _build(self, obj: Any, stream: BytesIO, context: Any, path: str) -> Any:
        construct.stream_write(stream, obj.bytes, 16, path)
        return obj


def read_length(form: Sized | Counted, stream: BytesIO, context: Any, path: str) -> int | None:
    """Return a length of at most the bytes left, or None. Raises: construct.ConstructError."""
    start = stream.tell()
    length = form.length._parsereport(stream, context, path) - (1 if form.compact else 0)
    part = "length" if isinstance(form, Sized) else "count"
    report(stream, context, path, start, (part, form.kind, length))
    if length < -1 or (length == -1 and not form.nullable):
        raise construct.FormatFieldError(f"a length of {length}", path=path)
    if length > stream.getbuffer().nbytes - stream.tell():
        raise construct.StreamError(f"a length of {length}, more than the bytes left", path=path)
    return None if length < 0 else length


def write_length(form: Sized | Counted, length: int | None, stream: BytesIO, context: Any, path: str) -> None:
    """Write a length, or null. Raises: construct.ConstructError for null in a field without null."""
    if length is None and not form.nullable:
        raise construct.FormatFieldError("null where the version has no null", path=path)
    form.length._build((-1 if length is None else length) + (1 if form.compact else 0), stream, context, path)


@cache
def construct_of(cls: type[Message], version: int) -> construct.Struct:
    """Return the construct of the body of `cls` in `version`. Raises: ValueError for an unknown version."""
    return _struct(cls, version, check_version(cls, version))


def _struct(cls: type[Message], version: int, flexible: bool) -> construct.Struct:
    plain, tagged = fields_in(cls, version)
    members = [each.name / _form(each, version, flexible) for each in plain]
    if flexible:
        forms = {each.tag: (each.name, _form(each, version, flexible)) for each in tagged}
        members.append(TAGGED_FIELDS / Tagged(forms, tags_of_other_versions(cls, version)))
    return construct.Struct(*members)


def _form(field: Field, version: int, flexible: bool) -> construct.Construct:
    nullable = version in field.nullable
    if field.wire.name == "array":
        if field.struct is not None:
            return Counted(_struct(field.struct, version, flexible), flexible, nullable)
        assert field.element is not None
        return Counted(_simple(field.element, flexible, nullable=False), flexible, nullable)
    if field.wire.name == "struct":
        assert field.struct is not None
        inner = _struct(field.struct, version, flexible)
        return Optional(inner, version in field.tagged) if nullable else inner
    return _simple(field.wire, flexible and field.flexible, nullable)


def _simple(wire: Wire, compact: bool, nullable: bool) -> construct.Construct:
    if wire.name in _FIXED:
        return ReportedValue(_FIXED[wire.name], wire.name)
    if wire.name == "uuid":
        return UuidBytes()
    return Sized(wire.name, compact, nullable)


def _parse_all(form: construct.Construct, data: bytes) -> Any:
    stream = BytesIO(data)
    parsed = form.parse_stream(stream)
    _check_end(stream, data)
    return parsed


def _check_end(stream: BytesIO, data: bytes) -> None:
    if stream.tell() != len(data):
        raise construct.TerminatedError(f"{len(data) - stream.tell()} bytes too many")


def trace(
    form: construct.Construct, data: bytes | BytesIO, on_span: OnSpan, *, base: int = 0
) -> tuple[Any, int]:
    """Return the value that construct reads from `data`, and its end. Report all its bytes.

    A stream is read from its current position. Positions count from `base`. Raises: WireError, after the
    bytes before the damage are reported.
    """
    stream = data if isinstance(data, BytesIO) else BytesIO(data)
    try:
        return form.parse_stream(stream, on_span=on_span, base=base), base + stream.tell()
    except (construct.ConstructError, UnicodeDecodeError) as error:
        words = getattr(error, "args", None) and str(error).splitlines()[-1]
        raise WireError(str(words or error)) from None


def parse(cls: type[M], data: bytes, version: int) -> M:
    """Return the message that construct reads. Raises: WireError unless `data` is exactly one message."""
    try:
        container = _parse_all(construct_of(cls, version), bytes(data))
    except (construct.ConstructError, UnicodeDecodeError) as error:
        raise WireError(f"{cls.__name__} v{version}: {error}") from None
    return cast(M, _message(cls, container))


def build(message: Message, version: int) -> bytes:
    """Return the bytes that construct writes. Raises: EncodeError for a value that the version lacks."""
    form = construct_of(type(message), version)
    try:
        return cast(bytes, form.build(_container(message, version)))
    except construct.ConstructError as error:
        raise EncodeError(f"{type(message).__name__} v{version}: {error}") from None


def _message(cls: type[Message], container: Mapping[str, Any]) -> Message:
    found = {**container, **container.get(TAGGED_FIELDS, {})}
    values = {}
    for each in cls.declaration().fields:
        if each.name in found:
            values[each.name] = _value(each, found[each.name])
    return cls(**values)


def _value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.wire.name == "array":
        return tuple(_message(field.struct, each) if field.struct else each for each in value)
    return _message(field.struct, value) if field.struct else value


def _container(message: Message, version: int) -> dict[str, Any]:
    plain, tagged = fields_in(type(message), version)
    for each in message.declaration().fields:
        if version not in each.versions and not each.ignorable and _is_set(message, each):
            raise EncodeError(f"{type(message).__name__}.{each.name} is not in version {version}")
    out = {each.name: _plain(each, getattr(message, each.name), version) for each in plain}
    set_tags = [each for each in tagged if _is_set(message, each)]
    out[TAGGED_FIELDS] = {each.name: _plain(each, getattr(message, each.name), version) for each in set_tags}
    return out


def _is_set(message: Message, field: Field) -> bool:
    value = getattr(message, field.name)
    return value is None or len(value) > 0 if field.default == () else bool(value != field.default)


def _plain(field: Field, value: Any, version: int) -> Any:
    if value is None or field.struct is None:
        return value
    if field.wire.name == "array":
        return [_container(each, version) for each in value]
    return _container(value, version)
