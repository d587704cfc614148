"""The decorators that declare a class a message, or a struct inside messages.

They give the class what compiles its codecs, which is imported when the first message is read or written.
"""

from collections.abc import Callable

from kohort.protocol.limits import MAX_ITEMS
from kohort.protocol.schema import Decoder, Encoder, M, Message, declare
from kohort.protocol.versions import ALL, NONE, Versions


def message(
    *, versions: str, flexible: str, api_key: int = -1, max_items: int | None = None
) -> Callable[[type[M]], type[M]]:
    """Return the decorator that makes a class body the declaration of a message.

    `max_items` is how many elements all arrays of such a message may have together; requests that do
    not say have room for `MAX_ITEMS`, other messages have no limit.
    """

    def decorate(cls: type[M]) -> type[M]:
        most = MAX_ITEMS if max_items is None and cls.__name__.endswith("Request") else max_items
        return _declare(cls, api_key, Versions.parse(versions), Versions.parse(flexible), most)

    return decorate


def struct(cls: type[M]) -> type[M]:
    """Declare a struct that stands inside messages; its versions are those of the message."""
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
    from kohort.protocol import compiler  # noqa: PLC0415  # Most processes read few messages.

    return compiler.decoder(cls, version)


def _compile_encoder(cls: type[Message], version: int) -> Encoder:
    from kohort.protocol import compiler  # noqa: PLC0415

    return compiler.encoder(cls, version)
