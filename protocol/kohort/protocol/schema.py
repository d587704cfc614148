"""Declarations: each message is declared once, as a typed class.

    @message(api_key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest(Message):
        group_id: String
        generation_id: Int32
        member_id: String
        group_instance_id: NullableString = field(versions="3+", default=None)

The declaration gives the class itself (a frozen `msgspec.Struct`), a compiled codec per version
(`kohort.protocol.compiler`) and a construct `Struct` per version (`kohort.protocol.constructs`).
Decoding sets a field that the version lacks to its default. Fields are in Kafka's order, which is the
order on the wire. Source: Kafka's message generator and its schemas, clients/common/message/*.json.
"""

from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Protocol,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    overload,
)
from uuid import UUID

import msgspec

from kohort.protocol.versions import NONE, Versions

T = TypeVar("T")
M = TypeVar("M", bound="Message")


class Wire(msgspec.Struct, frozen=True):
    """A wire type: `name` is Kafka's name of it, `default` its implicit default."""

    name: str
    format: str = ""  # struct format character of a fixed width type
    default: object = None


class RecordsSlice(Protocol):
    """Record batches that are not copied until they are sent, such as a range of a file."""

    def __len__(self) -> int: ...


ARRAY = Wire("array", default=())
STRUCT = Wire("struct")

Bool = Annotated[bool, Wire("bool", "?", default=False)]
Int8 = Annotated[int, Wire("int8", "b", default=0)]
Int16 = Annotated[int, Wire("int16", "h", default=0)]
Int32 = Annotated[int, Wire("int32", "i", default=0)]
Int64 = Annotated[int, Wire("int64", "q", default=0)]
Float64 = Annotated[float, Wire("float64", "d", default=0.0)]
UInt16 = Annotated[int, Wire("uint16", "H", default=0)]
Uuid = Annotated[UUID, Wire("uuid", default=UUID(int=0))]
String = Annotated[str, Wire("string", default="")]
NullableString = Annotated[str | None, Wire("string", default="")]
Bytes = Annotated[bytes, Wire("bytes", default=b"")]
NullableBytes = Annotated[bytes | None, Wire("bytes", default=b"")]
Records = Annotated[bytes | bytearray | memoryview | RecordsSlice | None, Wire("records", default=None)]
Array = Annotated[tuple[T, ...], ARRAY]
NullableArray = Annotated[tuple[T, ...] | None, ARRAY]

ZERO_UUID = UUID(int=0)


class _Unset:
    """The type of UNSET: no default is declared."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()


class FieldSpec(msgspec.Struct, frozen=True):
    """The arguments of `field()`."""

    versions: str = "0+"
    default: object = UNSET
    nullable: str = "0+"
    tag: int = -1
    tagged: str = "none"
    flexible: bool = True
    ignorable: bool = False


@overload
def field(
    *,
    default: T,
    versions: str = ...,
    nullable: str = ...,
    tag: int = ...,
    tagged: str = ...,
    ignorable: bool = ...,
) -> T: ...
@overload
def field(
    *,
    versions: str = ...,
    nullable: str = ...,
    tag: int = ...,
    tagged: str = ...,
    flexible: bool = ...,
    ignorable: bool = ...,
) -> Any: ...  # A specifier without a default fits every annotation.
def field(
    *,
    default: object = UNSET,
    versions: str = "0+",
    nullable: str = "0+",
    tag: int = -1,
    tagged: str = "none",
    flexible: bool = True,
    ignorable: bool = False,
) -> object:
    """Return the specifier of a field that needs more than its annotation.

    `versions` have the field, `nullable` versions take None (where the annotation allows it), and `tagged`
    versions carry it as the tagged field `tag`. `flexible=False` keeps a string's two-byte length in flexible
    versions. Encoding a value other than the default in a version without the field is an error, unless the
    field is `ignorable`.
    """
    return FieldSpec(versions, default, nullable, tag, tagged, flexible, ignorable)


UNSPECIFIED = FieldSpec()


class Field(msgspec.Struct, frozen=True):
    """One field of a declaration: name, wire type, default and versions."""

    name: str
    wire: Wire
    default: object
    versions: Versions
    nullable: Versions
    tag: int
    tagged: Versions
    flexible: bool
    ignorable: bool
    element: Wire | None = None  # of an array
    struct: "type[Message] | None" = None  # of a struct, or of an array of structs


Decoder = Callable[[bytes | bytearray | memoryview, bool], "Message"]
Encoder = Callable[["Message"], "list[bytes | RecordsSlice]"]


class Declaration(msgspec.Struct, frozen=True):
    """The declaration of a message: its fields in wire order, its versions, and its codecs' compilers."""

    name: str
    api_key: int
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]
    compile_decoder: Callable[[type["Message"], int], Decoder]
    compile_encoder: Callable[[type["Message"], int], Encoder]
    max_items: int | None = None  # in all arrays of one message together, tagged fields among them


if TYPE_CHECKING:
    # For type checkers, messages take only keyword arguments, unlike other msgspec structs.
    class StructMeta(type):
        """The metaclass of struct classes."""

    class Struct:
        """The base of struct classes."""
else:
    from msgspec import Struct, StructMeta

_fields: "dict[type, tuple[Field, ...]]" = {}


@dataclass_transform(frozen_default=True, kw_only_default=True)
class MessageMeta(StructMeta):
    """Turns field specifiers into fields. For type checkers, messages take keyword arguments.

    An argument is optional for a field with a specifier. It is required for a field without one.
    """

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "MessageMeta":
        """Return the struct class, whose fields have the schema's defaults."""
        fields = []
        for attribute, hint in namespace.get("__annotations__", {}).items():
            spec = namespace.get(attribute, UNSPECIFIED)
            fields.append(_resolve(attribute, hint, spec))
            namespace[attribute] = fields[-1].default
        # gc=False: messages have no reference cycles, and a million of them would slow garbage collection.
        made = super().__new__(mcls, name, bases, namespace, frozen=True, gc=False, **options)
        _fields[made] = tuple(fields)
        return made


class Message(Struct, metaclass=MessageMeta):
    """A message of Kafka's protocol, or a struct inside one."""

    @classmethod
    def declaration(cls) -> Declaration:
        """Return the declaration of this class."""
        return _declarations[cls]

    @classmethod
    def decode(cls: type[M], data: bytes | bytearray | memoryview, version: int, *, exact: bool = True) -> M:
        """Return the message in `data`. With `exact`, no bytes may follow it.

        Raises: WireError.
        """
        decoder = decoders.get((cls, version))
        if decoder is None:
            decoder = compiled_decoder(cls, version)
        return decoder(data, exact)  # type: ignore[return-value]  # Its key is the class.

    @classmethod
    def decoder(cls, version: int) -> "Decoder":
        """Return the decoder of a version. Raises: ValueError for an unknown version."""
        return decoders.get((cls, version)) or compiled_decoder(cls, version)

    def encode(self, version: int) -> bytes:
        """Return the body in `version`. Raises: EncodeError for a value that the version cannot carry."""
        encoder = encoders.get((type(self), version))
        if encoder is None:
            encoder = compiled_encoder(type(self), version)
        return b"".join(encoder(self))  # type: ignore[arg-type]  # Only `encode_parts` may have file ranges.

    def encode_parts(self, version: int) -> "list[bytes | RecordsSlice]":
        """Return the body in pieces. The values of `Records` fields are not copied."""
        encoder = encoders.get((type(self), version))
        if encoder is None:
            encoder = compiled_encoder(type(self), version)
        return encoder(self)


decoders: dict[tuple[type[Message], int], Decoder] = {}
encoders: dict[tuple[type[Message], int], Encoder] = {}
_declarations: dict[type[Message], Declaration] = {}


def compiled_decoder(cls: type[Message], version: int) -> Decoder:
    """Compile and cache the decoder of a version. Raises: ValueError for an unknown version."""
    decoder = decoders[cls, version] = cls.declaration().compile_decoder(cls, version)
    return decoder


def compiled_encoder(cls: type[Message], version: int) -> Encoder:
    """Compile and cache the encoder of a version. Raises: ValueError for an unknown version."""
    encoder = encoders[cls, version] = cls.declaration().compile_encoder(cls, version)
    return encoder


def declare(
    cls: type[M],
    *,
    api_key: int,
    versions: Versions,
    flexible: Versions,
    compile_decoder: "Callable[[type[Message], int], Decoder]",
    compile_encoder: "Callable[[type[Message], int], Encoder]",
    max_items: int | None,
) -> type[M]:
    """Store the declaration of the class. Return the class."""
    _declarations[cls] = Declaration(
        name=cls.__name__,
        api_key=api_key,
        versions=versions,
        flexible=flexible,
        fields=_fields[cls],
        compile_decoder=compile_decoder,
        compile_encoder=compile_encoder,
        max_items=max_items,
    )
    return cls


def _resolve(name: str, hint: object, spec: FieldSpec) -> Field:
    wire, element, inner, can_be_null = _wire_of(hint)
    nullable = Versions.parse(spec.nullable) if can_be_null else NONE
    default = spec.default
    if default is UNSET:
        default = inner() if wire.name == "struct" and inner is not None else wire.default
    return Field(
        name=name,
        wire=wire,
        default=default,
        versions=Versions.parse(spec.versions),
        nullable=nullable,
        tag=spec.tag,
        tagged=Versions.parse(spec.tagged),
        flexible=spec.flexible,
        ignorable=spec.ignorable,
        element=element,
        struct=inner,
    )


def _wire_of(hint: object) -> tuple[Wire, Wire | None, type[Message] | None, bool]:
    """Return the wire type, the element's wire type, the struct class, and whether None is allowed."""
    if get_origin(hint) is Annotated:
        base, wire = get_args(hint)
        can_be_null = type(None) in get_args(base)
        if wire is not ARRAY:
            return wire, None, None, can_be_null
        sequence = next(each for each in get_args(base) if get_origin(each) is tuple) if can_be_null else base
        element, _, inner, _ = _wire_of(get_args(sequence)[0])
        return ARRAY, element, inner, can_be_null
    options = [each for each in get_args(hint) if each is not type(None)] or [hint]
    inner_class = options[0]
    assert isinstance(inner_class, type), hint
    assert issubclass(inner_class, Message), hint
    return STRUCT, None, inner_class, len(get_args(hint)) > 1
