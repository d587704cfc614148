"""Whether a reader's schema can read what a writer's schema has written: Avro's rules of schema resolution.

As in Avro's Java library (SchemaCompatibility), named types match by their names without namespaces, or by an
alias.
"""

from kohort.registry.avro.types import Array, Enum, Fixed, Map, Named, Record, Type, Union
from kohort.registry.comparing import PROBLEMS_MAX, Comparison, Problems, problem

PROMOTED = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""What else a reader of a primitive type can read."""


def problems_reading(reader: Type, writer: Type) -> Problems:
    """Return why `reader` cannot read the data of `writer`; nothing if it can.

    Raises: InvalidSchema for schemas that are too complex to compare.
    """
    return _Check().whole(reader, writer)


class _Check(Comparison[Type]):
    def look(self, reader: Type, writer: Type, path: str) -> Problems:
        """Return the problems of a pair."""
        if isinstance(writer, Union):
            return self._of_union(reader, writer, path)
        if isinstance(reader, Union):
            if any(not self.compare(each, writer, path) for each in reader.branches):
                return ()
            return (
                problem("MISSING_UNION_BRANCH", path, f"the reader's union has no type for {_name(writer)}"),
            )
        if _kind(reader) != _kind(writer):
            if writer.kind in PROMOTED.get(reader.kind, ()):
                return ()
            words = f"the reader's {_name(reader)} cannot read the writer's {_name(writer)}"
            return (problem("TYPE_MISMATCH", path, words),)
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.compare(reader.items, writer.items, f"{path}items/")
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.compare(reader.values, writer.values, f"{path}values/")
        if isinstance(reader, Named) and isinstance(writer, Named):
            return self._of_named(reader, writer, path)
        return ()

    def _of_union(self, reader: Type, writer: Union, path: str) -> Problems:
        found: Problems = ()
        for number, each in enumerate(writer.branches):
            found += self.compare(reader, each, f"{path}{number}/" if isinstance(reader, Union) else path)
            if len(found) >= PROBLEMS_MAX:
                break
        return found

    def _of_named(self, reader: Named, writer: Named, path: str) -> Problems:
        found: Problems = ()
        if reader.name != writer.name and writer.full_name not in reader.aliases:
            words = f"the reader's {reader.full_name} is the writer's {writer.full_name}: give it an alias"
            found = (problem("NAME_MISMATCH", f"{path}name", words),)
        if isinstance(reader, Fixed) and isinstance(writer, Fixed) and reader.size != writer.size:
            words = f"the reader has {reader.size} bytes, the writer {writer.size}"
            return (*found, problem("FIXED_SIZE_MISMATCH", f"{path}size", words))
        if isinstance(reader, Enum) and isinstance(writer, Enum) and reader.default is None:
            known = frozenset(reader.symbols)
            missing = [each for each in writer.symbols if each not in known]
            if missing:
                words = f"the reader lacks {', '.join(missing[:PROBLEMS_MAX])} and has no default"
                return (*found, problem("MISSING_ENUM_SYMBOLS", f"{path}symbols", words))
        if isinstance(reader, Record) and isinstance(writer, Record):
            return found + self._of_fields(reader, writer, path)
        return found

    def _of_fields(self, reader: Record, writer: Record, path: str) -> Problems:
        written = {each.name: each for each in writer.fields}
        found: Problems = ()
        for number, field in enumerate(reader.fields):
            source = next((written[each] for each in (field.name, *field.aliases) if each in written), None)
            where = f"{path}fields/{number}"
            if source is not None:
                found += self.compare(field.type, source.type, f"{where}/type/")
            elif not field.has_default:
                words = f"the reader's field {field.name} has no default, and the writer does not write it"
                found += (problem("READER_FIELD_MISSING_DEFAULT_VALUE", where, words),)
            if len(found) >= PROBLEMS_MAX:
                break
        return found


def _kind(kind: Type) -> str:
    return "record" if kind.kind == "error" else kind.kind


def _name(kind: Type) -> str:
    return kind.full_name if isinstance(kind, Named) else kind.kind
