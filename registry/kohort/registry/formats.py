"""What a schema language has to do for the registry: read a text, and say who can read whose data."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kohort.registry.avro.schema import parse_avro
from kohort.registry.records import AVRO


class Dependency(NamedTuple):
    """A schema that another one uses, under the name by which it uses it."""

    name: str
    text: str


class Parsed(Protocol):
    """A schema that was read."""

    @property
    def canonical(self) -> str:
        """The text that is kept: two schemas with one canonical text are one."""

    @property
    def normalized(self) -> str:
        """The canonical text without what makes no difference to readers."""

    def problems_reading(self, writer: "Parsed") -> Sequence[str]:
        """Return why this schema cannot read the data of another one of its language; nothing if it can."""


Parse = Callable[..., Parsed]
"""parse(text, dependencies, is_new=...): dependencies come before what uses them. Raises: InvalidSchema."""

FORMATS: Mapping[str, Parse] = {AVRO: parse_avro}
"""The languages that are served. Any other type is refused as Confluent's registry refuses an unknown one."""
