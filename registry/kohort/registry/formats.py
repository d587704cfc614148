"""What a schema language has to do for the registry: read a text, and say who can read whose data."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple, Protocol

from kohort.registry.avro.schema import parse_avro
from kohort.registry.json_schema.schema import parse_json_schema
from kohort.registry.protobuf.schema import parse_protobuf
from kohort.registry.records import AVRO, JSON, PROTOBUF


class Dependency(NamedTuple):
    """A schema that another one uses, under the name by which it uses it."""

    name: str
    text: str


class Parsed(Protocol):
    """A schema that was read."""

    @property
    def canonical(self) -> str:
        """The text that is kept: two schemas with one canonical text are one."""
        ...

    @property
    def normalized(self) -> str:
        """The canonical text without what makes no difference to readers."""
        ...

    def problems_reading(self, writer: "Parsed") -> Sequence[str]:
        """Return why this schema cannot read the data of another one of its language; nothing if it can."""
        ...


Parse = Callable[..., Parsed]
"""parse(text, dependencies, is_new=...): dependencies come before what uses them. Raises: InvalidSchema."""

NEEDED = {JSON: "jsonschema", PROTOBUF: "proto_schema_parser"}
"""What the extra `registry` installs for a language."""
LANGUAGES: Mapping[str, Parse] = {AVRO: parse_avro, JSON: parse_json_schema, PROTOBUF: parse_protobuf}
FORMATS: Mapping[str, Parse] = {
    name: parse
    for name, parse in LANGUAGES.items()
    if name not in NEEDED or find_spec(NEEDED[name]) is not None
}
"""The languages that are served. Any other type is refused as Confluent's registry refuses an unknown one."""
