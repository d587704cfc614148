"""Keys and values in JSON as Confluent's serializers write them: a zero, the id of the schema, the text."""

import json
from typing import Any
from urllib.parse import urljoin

from kohort.client.errors import MissingExtraError
from kohort.client.schema_header import HEADER, Schema, id_in_header, text_of, with_header
from kohort.client.schema_registry import RegisteredSchema, SchemaRegistry

KIND = "JSON"


class Json:
    """A deserializer of JSON with a schema: `Consumer("orders", value_deserializer=Json(url))`.

    Records become what their text says, checked against the schema that they were written with. That
    schema is requested from the registry, once for each id, in the thread that polls. Without `validate`
    nothing is checked and no schema is requested. `serializer` makes a producer's serializer. Any thread
    may use it. Raises: MissingExtraError without jsonschema, ConfigurationError for an invalid URL.
    """

    def __init__(self, registry: str | SchemaRegistry, *, validate: bool = True) -> None:
        self.registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        self._validates = validate
        self._validators: dict[int, Any] = {}
        if validate:
            _require_jsonschema()

    def __call__(self, data: bytes) -> object:
        """Return the decoded value. Raises: ValueError for what does not fit its schema, KohortError."""
        schema_id = id_in_header(data, "JSON")
        value = json.loads(data[HEADER.size :])
        if self._validates:
            self.check(schema_id, value)
        return value

    def check(self, schema_id: int, value: object) -> None:
        """Return if a value fits the schema of an id. Raises: ValueError, KohortError."""
        validator = self._validators.get(schema_id)
        if validator is None:
            validator = self._validators[schema_id] = _validator(self.registry.schema(schema_id))
        problem = next(validator.iter_errors(value), None)
        if problem is not None:
            raise ValueError(f"it does not fit schema {schema_id} at {problem.json_path}: {problem.message}")

    def serializer(self, subject: str, schema: Schema, *, register: bool = True) -> "JsonSerializer":
        """Return a serializer: `Producer(value_serializer=values.serializer("orders-value", schema))`.

        The first value registers the schema under the subject; without `register` it has to be there.
        """
        return JsonSerializer(self, subject, text_of(schema), register=register, validate=self._validates)


class JsonSerializer:
    """Makes bytes of values that fit its schema."""

    def __init__(self, values: Json, subject: str, text: str, *, register: bool, validate: bool) -> None:
        self._values = values
        self._subject = subject
        self._text = text
        self._may_register = register
        self._validates = validate
        self._id: int | None = None

    def __call__(self, value: object) -> bytes:
        """Return the bytes of a value. Raises: ValueError and TypeError for a wrong one, KohortError."""
        if self._id is None:
            registry = self._values.registry
            ask = registry.register if self._may_register else registry.look_up
            self._id = ask(self._subject, self._text, KIND)
        data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        if self._validates:
            self._values.check(self._id, json.loads(data))  # As the reader sees it: a tuple is an array.
        return with_header(self._id, data)


def _validator(schema: RegisteredSchema) -> Any:
    """Return what checks values, and fetches no schema from elsewhere. Raises: ValueError for no schema."""
    jsonschema, referencing = _require_jsonschema()
    draft7 = referencing.jsonschema.DRAFT7
    contents = json.loads(schema.text)
    base = contents.get("$id", "") if isinstance(contents, dict) else ""
    resources = []
    for name, text in schema.dependencies:
        used = json.loads(text)
        resource = referencing.Resource.from_contents(used, default_specification=draft7)
        names = {name, urljoin(base, name), resource.id() or name}
        resources += [(each, resource) for each in names]
    registry = referencing.jsonschema.EMPTY_REGISTRY.with_resources(resources)
    kind = jsonschema.validators.validator_for(contents, default=jsonschema.Draft7Validator)
    try:
        kind.check_schema(contents)
    except jsonschema.SchemaError as error:
        raise ValueError(f"the registry's schema is invalid: {error.message}") from error
    return kind(contents, registry=registry)


def _require_jsonschema() -> tuple[Any, Any]:
    try:
        import jsonschema  # noqa: PLC0415  # It may not be here.
        import referencing.jsonschema  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(
            f"JSON Schema needs jsonschema ({error}): pip install 'kohort[registry]'"
        ) from error
    return jsonschema, referencing
