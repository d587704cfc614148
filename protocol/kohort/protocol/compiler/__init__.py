"""The compiled codec: Python code generated from the declaration of a message, for one version.

Adjacent fields of fixed width become one `struct` call. Nested structs and arrays are inlined: there is no
call per element. For an OffsetCommit of 95 bytes construct takes 58 us, this codec about 2 us. Tests compare
both codecs on the same bytes.

Generated decoders raise only WireError, for any bytes. They compare a length with the bytes left before they
read, and a count with the bytes that its elements need at least. A request has a limit of elements in all its
arrays, because each element costs a broker time. Ids in a request must not share hashes: see `ids`.
Generated encoders raise EncodeError for a value that the version cannot carry, such as a string too long.
"""

import struct
from typing import cast
from uuid import UUID

from kohort.protocol.compiler.decoder_writer import DecoderWriter, TooManyItems
from kohort.protocol.compiler.encoder_writer import EncoderWriter, joins_pieces
from kohort.protocol.compiler.source import Source, check_version, fields_in, tags_of_other_versions
from kohort.protocol.errors import EncodeError, WireError
from kohort.protocol.ids import UNCHECKED_IDS_MAX, check_ids
from kohort.protocol.limits import MAX_ITEMS
from kohort.protocol.schema import Decoder, Encoder, Message
from kohort.protocol.varint import (
    UVARINTS,
    encode_string_length,
    encode_uvarint,
    read_string_length_rest,
    read_uvarint_rest,
    skip_tags,
)

__all__ = [
    "check_version",
    "decoder",
    "decoder_source",
    "decoder_text",
    "encoder",
    "encoder_text",
    "fields_in",
    "tags_of_other_versions",
]

DECODER_NAMES: dict[str, object] = {
    "WireError": WireError,
    "StructError": struct.error,
    "TooManyItems": TooManyItems,
    "rest": read_uvarint_rest,
    "string_rest": read_string_length_rest,
    "skip_tags": skip_tags,
    "text": str,
    "unpack_from": struct.unpack_from,
    "UUID": UUID,
    "check_ids": check_ids,
}
_ENCODER_NAMES: dict[str, object] = {
    "EncodeError": EncodeError,
    "StructError": struct.error,
    "UVARINTS": UVARINTS,
    "uvarint": encode_uvarint,
    "string_length": encode_string_length,
}


def decoder(cls: type[Message], version: int) -> Decoder:
    """Return the compiled decoder of `cls` in `version`. Raises: ValueError."""
    source = decoder_source(cls, version)
    return cast(Decoder, source.build("def generated(data, exact=True):", f"decode {source.names['title']}"))


def encoder(cls: type[Message], version: int) -> Encoder:
    """Return the compiled encoder of `cls` in `version`. Raises: ValueError."""
    title = f"{cls.__name__} v{version}"
    source = _encoder_source(cls, version, title)
    return cast(Encoder, source.build("def generated(message):", f"encode {title}"))


def decoder_text(cls: type[Message], version: int) -> str:
    """Return the generated Python that reads `cls` in `version`, for display."""
    return "\n".join(decoder_source(cls, version).lines)


def encoder_text(cls: type[Message], version: int) -> str:
    """Return the generated Python that writes `cls` in `version`, for display."""
    return "\n".join(_encoder_source(cls, version, f"{cls.__name__} v{version}").lines)


def decoder_source(cls: type[Message], version: int) -> Source:
    """Return the lines that read `cls` in `version`, with the name `title` for both. Raises: ValueError."""
    source = Source({**DECODER_NAMES, "title": f"{cls.__name__} v{version}"})
    max_items = cls.declaration().max_items
    writer = DecoderWriter(source, version, check_version(cls, version), is_limited=max_items is not None)
    source.add("size = len(data)")
    if max_items is not None:
        source.add(f"left = MAX_LEFT = {max_items}")
        source.add(f"left_containers = MAX_LEFT_CONTAINERS = {MAX_ITEMS}")
    has_ids = max_items is not None and writer.has_ids(cls)
    if has_ids:
        source.add("ids = 0")
    with source.block("try:"):
        source.add("pos = 0")
        made = writer.struct(cls)
    with source.block("except (StructError, IndexError, UnicodeDecodeError) as error:"):
        source.add("raise WireError(title + ': ' + str(error)) from None")
    with source.block("except TooManyItems as error:"):
        source.add("raise WireError(title + ': more than ' + str(error) + ' elements in all') from None")
    with source.block("if pos != size:"):
        with source.block("if pos > size:"):
            source.add("raise WireError(title + ': the bytes end before the end of a length')")
        with source.block("if exact:"):
            source.add("raise WireError(title + ': ' + str(size - pos) + ' bytes too many')")
    if not has_ids:
        source.add(f"return {made}")
        return source
    source.add(f"message = {made}")
    with source.block(f"if ids > {UNCHECKED_IDS_MAX}:"):
        source.add("check_ids(message)")
    source.add("return message")
    return source


def _encoder_source(cls: type[Message], version: int, title: str) -> Source:
    source = Source(_ENCODER_NAMES)
    joins = cls.__name__.endswith("Response") and joins_pieces(cls, version)
    writer = EncoderWriter(source, version, check_version(cls, version), joins_pieces=joins)
    with source.block("try:"):
        source.add("parts = []")
        if joins:
            source.add("done = []")
        writer.struct(cls, "message")
        writer.flush()
    with source.block("except (StructError, UnicodeEncodeError) as error:"):
        source.add(f"raise EncodeError('{title}: ' + str(error)) from None")
    source.add("return done + parts if done else parts" if joins else "return parts")
    return source
