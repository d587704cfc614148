"""Whether a reader's schema can read what a writer's schema has written: Avro's rules of schema resolution.

As in Avro's Java library (SchemaCompatibility), named types match by their names without namespaces, or by an
alias.
"""

from kohort.registry.avro.types import Array, Enum, Fixed, Map, Named, Record, Type, Union
from kohort.registry.errors import InvalidSchema

Problems = tuple[str, ...]
PROBLEMS_MAX = 20
"""More of one pair of types are not told."""
STEPS_MAX = 20_000
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
    try:
        return _Check().compare(reader, writer, "/")
    except RecursionError:
        raise InvalidSchema("it is nested too deeply to compare") from None


class _Check:
    """One comparison. Each pair is looked at once: a pair that is under way is taken for compatible."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Problems] = {}
        self._under_way: set[tuple[int, int]] = set()
        self._assumed: set[tuple[int, int]] = set()
        self._steps = 0

    def compare(self, reader: Type, writer: Type, path: str) -> Problems:
        pair = (id(reader), id(writer))
        if pair in self._under_way:
            self._assumed.add(pair)
            return ()
        if (known := self._known.get(pair)) is not None:
            return known
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise InvalidSchema("it is too complex to compare")
        self._under_way.add(pair)
        count = len(self._known)
        found = self._compare(reader, writer, path)[:PROBLEMS_MAX]
        self._under_way.discard(pair)
        if (
            found and pair in self._assumed
        ):  # What was found by taking this pair for compatible does not hold.
            for each in list(self._known)[count:]:
                if not self._known[each]:
                    del self._known[each]
        self._assumed.discard(pair)
        self._known[pair] = found
        return found

    def _compare(self, reader: Type, writer: Type, path: str) -> Problems:
        if isinstance(writer, Union):
            return self._of_union(reader, writer, path)
        if isinstance(reader, Union):
            if any(not self.compare(each, writer, path) for each in reader.branches):
                return ()
            return (
                _problem("MISSING_UNION_BRANCH", path, f"the reader's union has no type for {_name(writer)}"),
            )
        if _kind(reader) != _kind(writer):
            if writer.kind in PROMOTED.get(reader.kind, ()):
                return ()
            words = f"the reader's {_name(reader)} cannot read the writer's {_name(writer)}"
            return (_problem("TYPE_MISMATCH", path, words),)
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
        return found

    def _of_named(self, reader: Named, writer: Named, path: str) -> Problems:
        found: Problems = ()
        if reader.name != writer.name and writer.full_name not in reader.aliases:
            words = f"the reader's {reader.full_name} is the writer's {writer.full_name}: give it an alias"
            found = (_problem("NAME_MISMATCH", f"{path}name", words),)
        if isinstance(reader, Fixed) and isinstance(writer, Fixed) and reader.size != writer.size:
            words = f"the reader has {reader.size} bytes, the writer {writer.size}"
            return (*found, _problem("FIXED_SIZE_MISMATCH", f"{path}size", words))
        if isinstance(reader, Enum) and isinstance(writer, Enum) and reader.default is None:
            missing = [each for each in writer.symbols if each not in reader.symbols]
            if missing:
                words = f"the reader lacks {', '.join(missing[:PROBLEMS_MAX])} and has no default"
                return (*found, _problem("MISSING_ENUM_SYMBOLS", f"{path}symbols", words))
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
                found += (_problem("READER_FIELD_MISSING_DEFAULT_VALUE", where, words),)
            if len(found) >= PROBLEMS_MAX:
                break
        return found


def _kind(kind: Type) -> str:
    return "record" if kind.kind == "error" else kind.kind


def _name(kind: Type) -> str:
    return kind.full_name if isinstance(kind, Named) else kind.kind


def _problem(kind: str, path: str, words: str) -> str:
    return f"{{errorType:'{kind}', description:'{words}', path:'{path.rstrip('/') or '/'}'}}"
