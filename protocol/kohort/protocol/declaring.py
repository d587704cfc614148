"""The decorators that declare a class as a message, or as a struct inside messages.

The compiler of codecs is imported when the first message is read or written.
"""

from collections.abc import Callable

from kohort.protocol.limits import MAX_ITEMS
from kohort.protocol.schema import Decoder, Encoder, M, Message, declare
from kohort.protocol.versions import ALL, NONE, Versions


def message(
    *, versions: str, flexible: str, api_key: int = -1, max_items: int | None = None
) -> Callable[[type[M]], type[M]]:
    """Return the decorator that declares a class as a message.

    `max_items` is the largest number of elements in all arrays of a message together. The default is
    `MAX_ITEMS` for requests and no limit for other messages.
    """

    def decorate(cls: type[M]) -> type[M]:
        limit = MAX_ITEMS if max_items is None and cls.__name__.endswith("Request") else max_items
        return _declare(cls, api_key, Versions.parse(versions), Versions.parse(flexible), limit)

    return decorate


def struct(cls: type[M]) -> type[M]:
    """Declare a struct inside messages. It has the versions of its message."""
    return _declare(cls, -1, ALL, NONE)


def _declare(
    cls: type[M], api_key: int, versions: Versions, flexible: Versions, max_items: int | None = None
) -> type[M]:
    return declare(
        cls,
        api_key=api_key,
        versions=versions,
        flexible=flexible,
        compile_decoder=_compile_decoder,
        compile_encoder=_compile_encoder,
        max_items=max_items,
    )


def _compile_decoder(cls: type[Message], version: int) -> Decoder:
    from kohort.protocol import compiler, request_decoders  # noqa: PLC0415  # Most processes use few messages.

    return request_decoders.compiled_decoder(cls, version) or compiler.decoder(cls, version)


def _compile_encoder(cls: type[Message], version: int) -> Encoder:
    from kohort.protocol import compiler  # noqa: PLC0415

    return compiler.encoder(cls, version)
