"""What clients ask the registry to do, as far as a request has a body."""

from typing import Annotated, Any

import msgspec

from kohort.registry.records import Reference, check_nesting

ID_MAX = VERSION_MAX = 2**31 - 1
"""Serializers write an id in four bytes with a sign."""


class Metadata(msgspec.Struct, frozen=True):
    """What the metadata of a schema may be."""

    tags: dict[str, list[str]] | None = None
    properties: dict[str, Any] | None = None
    sensitive: list[str] | None = None


class NewSchema(msgspec.Struct, frozen=True):
    """A schema that a client sends: to be registered, looked up or checked."""

    schema: str | None = None
    schemaType: str | None = None  # As clients send it.
    references: tuple[Reference, ...] | None = None
    metadata: dict[str, Any] | None = None
    ruleSet: dict[str, Any] | None = None  # As clients send it.
    id: Annotated[int, msgspec.Meta(le=ID_MAX)] | None = None
    """For the mode IMPORT: the id that it has elsewhere."""
    version: Annotated[int, msgspec.Meta(le=VERSION_MAX)] | None = None

    def __post_init__(self) -> None:
        """Check what is kept as it came. Raises: msgspec.ValidationError, ValueError."""
        check_nesting(self.metadata, self.ruleSet)
        if self.metadata is not None:
            msgspec.convert(self.metadata, Metadata)


class NewConfig(msgspec.Struct, frozen=True):
    """A compatibility level that a client sets."""

    compatibility: str | None = None
    compatibilityLevel: str | None = None  # As GET answers it, which clients send back.
    normalize: bool | None = None


class NewMode(msgspec.Struct, frozen=True):
    """A mode that a client sets."""

    mode: str | None = None
