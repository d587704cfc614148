"""An Avro schema as the registry takes it."""

from collections.abc import Sequence

from kohort.registry.avro.compatibility import problems_reading
from kohort.registry.avro.reading import Reader
from kohort.registry.avro.types import Type
from kohort.registry.avro.writing import canonical_text


class AvroSchema:
    """A schema that was read, with the schemas that it uses."""

    def __init__(self, type_: Type, known: Sequence[str]) -> None:
        self._type = type_
        self._known = known

    @property
    def canonical(self) -> str:
        """The text that is kept."""
        return canonical_text(self._type, self._known)

    @property
    def normalized(self) -> str:
        """The text with whole names and sorted properties."""
        return canonical_text(self._type, self._known, is_normal=True)

    def problems_reading(self, writer: object) -> Sequence[str]:
        """Return why it cannot read the data of another one; nothing if it can."""
        assert isinstance(writer, AvroSchema)
        return problems_reading(self._type, writer._type)


def parse_avro(text: str, dependencies: Sequence[tuple[str, str]] = (), *, is_new: bool = True) -> AvroSchema:
    """Return the schema of a text. `dependencies` are names and texts that it uses. Raises: InvalidSchema."""
    before = Reader(checks_defaults=False)
    for _, each in dependencies:
        before.read(each)
    reader = Reader(checks_defaults=is_new)
    reader.names.update(before.names)
    return AvroSchema(reader.read(text), tuple(before.names))
