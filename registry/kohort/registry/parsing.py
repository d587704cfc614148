"""Reads schemas with the schemas that they refer to. A registered schema is read once."""

from collections.abc import Mapping, Sequence

import msgspec

from kohort.registry import errors
from kohort.registry.errors import InvalidSchema
from kohort.registry.formats import FORMATS, NEEDED, Dependency, Parse, Parsed
from kohort.registry.protobuf.schema import ProtobufSchema
from kohort.registry.records import AVRO, PROTOBUF, Reference, SchemaValue
from kohort.registry.requests import NewSchema
from kohort.registry.state import Content, State, content_of, qualified

KEPT_MAX = 500
SERIALIZED = "serialized"
DEPENDENCIES_MAX = 1_000


class Candidate(msgspec.Struct, frozen=True):
    """A schema of a request that was read: what it would be kept as."""

    parsed: Parsed
    value: SchemaValue
    """Without a version and an id yet."""

    @property
    def content(self) -> Content:
        """What makes it equal to another."""
        return content_of(self.value)


class Parser:
    """Reads schemas of a registry whose state is given."""

    def __init__(self, state: State, formats: Mapping[str, Parse] = FORMATS) -> None:
        self._state = state
        self._formats = formats
        self._kept: dict[tuple[int, str, Content], Parsed] = {}

    @property
    def types(self) -> list[str]:
        """The languages that are read."""
        return list(self._formats)

    def candidate(self, subject: str, new: NewSchema, *, normalize: bool, is_new: bool = True) -> Candidate:
        """Return what a request's schema would be kept as. Raises: RegistryError for what is no schema."""
        kind = new.schemaType or AVRO
        try:
            references = self._resolved(subject, new.references or ())
            parsed = self._read(kind, new.schema or "", references, subject, is_new=is_new)
            text = parsed.normalized if normalize else parsed.canonical
        except InvalidSchema as error:
            raise errors.invalid_schema(f"Invalid schema of type {kind}, details: {error}") from None
        value = SchemaValue(subject, 0, 0, text, kind, references, new.metadata, new.ruleSet)
        return Candidate(parsed, value)

    def check_kept(self, candidate: Candidate) -> None:
        """Return if the text that would be kept can be written and read again. Raises: RegistryError."""
        value = candidate.value
        try:
            value.schema.encode()
            self.registered(value)
        except (InvalidSchema, UnicodeEncodeError) as error:
            raise errors.invalid_schema(
                f"Invalid schema of type {value.schemaType}, details: {error}"
            ) from None

    def registered(self, value: SchemaValue) -> Parsed:
        """Return a schema that is registered. Raises: InvalidSchema where it cannot be read."""
        key = (self._state.generation, value.subject, content_of(value))
        found = self._kept.pop(key, None)
        if found is None:
            found = self._read(value.schemaType, value.schema, value.references, value.subject, is_new=False)
        self._kept[key] = found
        if len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        return found

    def equals(self, value: SchemaValue, candidate: Candidate, *, with_metadata: bool = True) -> bool:
        """Return whether a registered schema is the one of a request.

        A descriptor of Protocol Buffers equals a .proto text that says the same: clients register the one,
        and people the other.
        """
        parts = 4 if with_metadata else 3
        registered, wanted = content_of(value)[:parts], candidate.content[:parts]
        if registered == wanted:
            return True
        is_descriptor = wanted[0] == PROTOBUF and wanted[1] == candidate.parsed.normalized
        if not is_descriptor or (registered[0], *registered[2:]) != (wanted[0], *wanted[2:]):
            return False
        return self.registered(value).normalized == candidate.parsed.normalized

    def shown(self, value: SchemaValue, form: str) -> SchemaValue:
        """Return a version with its schema in another form: `serialized` is a descriptor in base64.

        Raises: RegistryError for a schema that cannot be read.
        """
        if form != SERIALIZED or value.schemaType != PROTOBUF:
            return value
        try:
            parsed = self.registered(value)
        except InvalidSchema as error:
            raise errors.invalid_schema(str(error)) from None
        assert isinstance(parsed, ProtobufSchema)
        return msgspec.structs.replace(value, schema=parsed.serialized)

    def _read(
        self, kind: str, text: str, references: Sequence[Reference], subject: str, *, is_new: bool
    ) -> Parsed:
        parse = self._formats.get(kind)
        if parse is None:
            raise InvalidSchema(_no_such_type(kind, self._formats))
        if not text:
            raise InvalidSchema("it is empty")
        return parse(text, self._dependencies(references, subject), is_new=is_new)

    def _resolved(self, subject: str, references: Sequence[Reference]) -> tuple[Reference, ...]:
        """Return the references, each with the number of a version that there is."""
        found = []
        for each in references:
            value = self._referred(each, subject)
            found.append(msgspec.structs.replace(each, version=value.version))
        return tuple(found)

    def _referred(self, reference: Reference, subject: str, *, with_deleted: bool = False) -> SchemaValue:
        name = qualified(reference.subject, subject)
        value = self._state.version(name, reference.version, with_deleted=with_deleted)
        if value is None:
            raise InvalidSchema(
                f"it refers to version {reference.version} of subject {name}, which does not exist"
            )
        return value

    def _dependencies(self, references: Sequence[Reference], subject: str) -> list[Dependency]:
        """Return all schemas that these references lead to, each before the schemas that use it."""
        found: dict[tuple[str, int], Dependency] = {}
        under_way: set[tuple[str, int]] = set()

        def add(references: Sequence[Reference], subject: str) -> None:
            for each in references:
                value = self._referred(each, subject, with_deleted=True)
                place = (value.subject, value.version)
                if place in found or place in under_way:
                    continue
                under_way.add(place)
                if len(under_way) > DEPENDENCIES_MAX:
                    raise InvalidSchema(f"it depends on more than {DEPENDENCIES_MAX} schemas")
                add(value.references, value.subject)
                found[place] = Dependency(each.name, value.schema)

        try:
            add(references, subject)
        except RecursionError:
            raise InvalidSchema("its references lead too far") from None
        return list(found.values())


def _no_such_type(kind: str, formats: Mapping[str, Parse]) -> str:
    if kind in NEEDED:
        return f'it needs {NEEDED[kind]}: pip install "kohort[registry]" for the registry'
    return f"there are schemas of type {', '.join(formats)} alone here"
