"""A JSON Schema as the registry takes it."""

from collections.abc import Sequence

from kohort.registry.errors import InvalidSchema
from kohort.registry.json_schema.compatibility import problems_reading
from kohort.registry.json_schema.document import Place, check_addresses, read, referred
from kohort.registry.json_text import write_json


class JsonSchema:
    """A schema that was read, with the schemas that it uses."""

    def __init__(self, place: Place) -> None:
        self._place = place

    @property
    def canonical(self) -> str:
        """The text that is kept: as it came, without spaces."""
        return write_json(self._place.node)

    @property
    def normalized(self) -> str:
        """The text with sorted names."""
        return write_json(self._place.node, sort_keys=True)

    def problems_reading(self, writer: object) -> Sequence[str]:
        """Return why documents of another schema may not fit it; nothing if all do."""
        assert isinstance(writer, JsonSchema)
        return problems_reading(self._place, writer._place)


def parse_json_schema(
    text: str, dependencies: Sequence[tuple[str, str]] = (), *, is_new: bool = True
) -> JsonSchema:
    """Return the schema of a text. `dependencies` are names and texts that it uses. Raises: InvalidSchema."""
    place = read(text, dependencies)
    if is_new:
        check_addresses(place)
        check(place)
        for each in referred(place):
            check(place.within(each))
    return JsonSchema(place)


def check(place: Place) -> None:
    """Return if it is a schema of the draft that its document names, or of draft 7. Raises: InvalidSchema."""
    from jsonschema import Draft7Validator  # noqa: PLC0415  # Most registries never see such a schema.
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415
    from jsonschema.validators import validator_for  # noqa: PLC0415

    try:
        validator_for(place.document.root, default=Draft7Validator).check_schema(place.node)
    except SchemaError as error:
        raise InvalidSchema(f"{error.json_path}: {error.message[:200]}") from None
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None
