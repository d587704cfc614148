"""Writes the lines that decode a message.

In the generated code `data` holds the bytes, `size` is their number and `pos` the position of the next read.
Malformed bytes raise IndexError, struct.error or UnicodeDecodeError inside the generated function, which
raises WireError.

The same lines run in Python and compiled by mypyc: what differs is what `text` and `unpack_from_...` are
(`kohort.protocol.request_decoders`).
"""

import struct

from kohort.protocol.compiler.source import Source, fields_in, tags_of_other_versions
from kohort.protocol.schema import Field, Message, Wire

MINIMUM_BYTES = {
    "uuid": 16,
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
}

READ_EXPRESSIONS = {
    "string": "text(data[pos:end], 'utf-8')",
    "bytes": "bytes(data[pos:end])",
    "records": "data[pos:end]",  # A view stays a view: a broker appends it without a copy.
}


NUMBERS = ("pos", "end", "size", "left", "MAX_LEFT", "left_containers", "MAX_LEFT_CONTAINERS", "ids")
"""The variables of all decoders: integers of 64 bits where they are compiled."""


class TooManyItems(Exception):
    """The arrays of a message have more elements than allowed."""


class DecoderWriter:
    """Writes the lines that read one message in one version.

    Where it `is_limited`, `left` counts the elements and tagged fields that may still come, and
    `left_containers` those elements that hold arrays themselves, such as topics: they cost more.
    """

    def __init__(self, source: Source, version: int, flexible: bool, *, is_limited: bool = False) -> None:
        self.source = source
        self.is_limited = is_limited
        self.version = version
        self.flexible = flexible
        self._run: list[tuple[str, str]] = []  # variables and formats of the fixed width run

    def struct(self, cls: type[Message]) -> str:
        """Write the lines that read a struct. Return the expression that constructs it."""
        plain, tagged = fields_in(cls, self.version)
        variables = {each.name: self._field(each) for each in plain}
        self._end_run()
        if self.flexible:
            others = tags_of_other_versions(cls, self.version)
            if tagged or others:
                self._tags(cls, tagged, variables, others)
            else:
                self._unknown_tags()
        arguments = [
            variables.get(each.name) or self._default(cls, each) for each in cls.declaration().fields
        ]
        return f"{self.source.bind(cls.__name__, cls)}({', '.join(arguments)})"

    def _default(self, cls: type[Message], field: Field) -> str:
        return self.source.literal(field.default, f"{cls.__name__}_{field.name}_default")

    def _field(self, field: Field) -> str:
        """Write the lines that read a field, unless it joins a run. Return its variable."""
        variable = self.source.fresh(field.name)
        nullable = self.version in field.nullable
        if field.wire.format:
            self._run.append((variable, field.wire.format))
        elif field.wire.name == "array":
            self._array(variable, field, nullable)
        elif field.wire.name == "struct":
            self._nested(variable, field, nullable)
        else:
            self._value(variable, field.wire, nullable, self.flexible and field.flexible)
        return variable

    def _end_run(self) -> None:
        """Write the one call that reads the pending fixed width fields."""
        if not self._run:
            return
        formats = "".join(each[1] for each in self._run)
        targets = "".join(each[0] + ", " for each in self._run)
        self._run = []
        unpack = self.source.fixed(formats, "unpack_from")
        self.source.add(f"{targets}= {unpack}(data, pos)")
        self.source.add(f"pos += {struct.calcsize('>' + formats)}")

    def _refuse(self, condition: str, what: str, number: str) -> None:
        """Write the check that raises "`what` of `number`" where `condition` is true."""
        with self.source.block(f"if {condition}:"):
            self.source.add(f"raise IndexError('{what} of ' + str({number}))")

    def _number(self, stem: str) -> str:
        """Return the name of a new variable for a length, a count, a flag or a tag."""
        return self.source.fresh(stem, "i64")

    def _uvarint(self, variable: str, rest: str = "rest") -> None:
        self._first_byte(variable)
        self._further_bytes(variable, rest)

    def _first_byte(self, variable: str) -> None:
        self._end_run()
        self.source.add(f"{variable} = data[pos]")
        self.source.add("pos += 1")

    def _further_bytes(self, variable: str, rest: str = "rest") -> None:
        with self.source.block(f"if {variable} > 127:"):
            self.source.add(f"{variable}, pos = {rest}(data, pos, {variable})")

    def _length(self, wire: Wire, compact: bool) -> str:
        """Write the lines that read a length or count. Return its variable, which is -1 for null."""
        length = self._number("n")
        if compact:
            self._uvarint(length)
            self.source.add(f"{length} -= 1")
        else:
            self._run.append((length, "h" if wire.name == "string" else "i"))
            self._end_run()
        return length

    def _null(self, variable: str, length: str, what: str, nullable: bool) -> None:
        """Write the branch for a length below zero. The caller writes the other branch."""
        with self.source.block(f"if {length} < 0:"):
            if nullable:
                self._refuse(f"{length} != -1", what, length)
                self.source.add(f"{variable} = None")
            else:
                self.source.add(f"raise IndexError('{what} of ' + str({length}))")

    def _value(self, variable: str, wire: Wire, nullable: bool, compact: bool) -> None:
        if wire.name == "uuid":
            self._uuid(variable)
            return
        if compact:
            self._compact_value(variable, wire, nullable)
            return
        length = self._length(wire, compact=False)
        self._null(variable, length, "a length", nullable)
        with self.source.block("else:"):
            self.source.add(f"end = pos + {length}")
            self._take_bytes(variable, wire)

    def _compact_value(self, variable: str, wire: Wire, nullable: bool) -> None:
        """Write the lines that read a value after a compact length: 0 is null, others are one higher."""
        length = self._number("n")
        self._uvarint(length, "string_rest" if wire.name == "string" else "rest")
        with self.source.block(f"if {length}:"):
            self.source.add(f"end = pos + {length} - 1")
            self._take_bytes(variable, wire)
        with self.source.block("else:"):
            self.source.add(f"{variable} = None" if nullable else "raise IndexError('a length of -1')")

    def _take_bytes(self, variable: str, wire: Wire) -> None:
        """Write the lines that read the bytes up to `end`.

        They do not check that the data is long enough: reads behind its end fail, and the decoder checks the
        position at its end.
        """
        self.source.add(f"{variable} = {READ_EXPRESSIONS[wire.name]}")
        self.source.add("pos = end")

    def _uuid(self, variable: str) -> None:
        self._end_run()
        self.source.add("end = pos + 16")
        self._refuse("end > size", "the end of the bytes before a length", "16")
        self.source.add(f"{variable} = UUID(bytes=bytes(data[pos:end]))")
        self.source.add("pos = end")

    def _nested(self, variable: str, field: Field, nullable: bool) -> None:
        assert field.struct is not None
        self._end_run()
        if not nullable:
            self.source.add(f"{variable} = {self.struct(field.struct)}")
            return
        flag = self._number("flag")
        is_null = f"{flag} < 0"  # Kafka writes a nullable struct behind one signed byte: below zero is null.
        # Before a tagged struct the flag is a varint, which Kafka reads as signed.
        if self.version in field.tagged:
            self._uvarint(flag)
            is_null = f"not 0 < {flag} <= 0x7FFFFFFF"
        else:
            self._run.append((flag, "b"))
            self._end_run()
        with self.source.block(f"if {is_null}:"):
            self.source.add(f"{variable} = None")
        with self.source.block("else:"):
            self.source.add(f"{variable} = {self.struct(field.struct)}")

    def _array(self, variable: str, field: Field, nullable: bool) -> None:
        count = self._length(field.wire, self.flexible)
        self._null(variable, count, "a count", nullable)
        with self.source.block("else:"):
            too_many = f"{count} * {self._minimum_of_element(field)} > size - pos"
            self._refuse(too_many, "the end of the bytes before a count", count)
            self._count_items(count)
            if field.struct is not None and self._holds_arrays(field.struct):
                self._count_items(count, "left_containers")
            if self.is_limited and self._is_array_of_ids(field):
                self.source.add(f"ids += {count}")
            if field.element is not None and field.element.format:
                letter, width = field.element.format, MINIMUM_BYTES[field.element.name]
                self.source.add(f"{variable} = unpack_from('>' + str({count}) + '{letter}', data, pos)")
                self.source.add(f"pos += {count} * {width}")
            else:
                self._elements(variable, field, count)

    def has_ids(self, cls: type[Message]) -> bool:
        """Return whether a message has arrays of ids, or of structs with ids, in this version."""
        return any(
            self._is_array_of_ids(each) or (each.struct is not None and self.has_ids(each.struct))
            for each in cls.declaration().fields
            if self.version in each.versions
        )

    def _is_array_of_ids(self, field: Field) -> bool:
        if field.wire.name != "array":
            return False
        if field.element is not None and field.element.name == "uuid":
            return True
        return field.struct is not None and any(
            each.wire.name == "uuid" and self.version in each.versions
            for each in field.struct.declaration().fields
        )

    def _holds_arrays(self, cls: type[Message]) -> bool:
        return any(
            each.wire.name == "array" and self.version in each.versions for each in cls.declaration().fields
        )

    def _count_items(self, count: str, left: str = "left") -> None:
        """Write the lines that subtract `count` from the elements that may still come."""
        if self.is_limited:
            self.source.add(f"{left} -= {count}")
            with self.source.block(f"if {left} < 0:"):
                self.source.add(f"raise TooManyItems(MAX_{left.upper()})")

    def _elements(self, variable: str, field: Field, count: str) -> None:
        items = self.source.fresh("items", "list[Any]")
        self.source.add(f"{items} = []")
        with self.source.block(f"for _ in range({count}):"):
            if field.struct is not None:
                made = self.struct(field.struct)
            else:
                assert field.element is not None
                made = self.source.fresh("item")
                self._value(made, field.element, nullable=False, compact=self.flexible)
            self.source.add(f"{items}.append({made})")
        self.source.add(f"{variable} = tuple({items})")

    def _minimum_of_element(self, field: Field) -> int:
        """Return the least number of bytes that one element of an array takes, at least one."""
        if field.struct is not None:
            return max(1, self._minimum_of_struct(field.struct))
        assert field.element is not None
        return self._minimum_of_value(field.element)

    def _minimum_of_value(self, wire: Wire) -> int:
        fixed = MINIMUM_BYTES.get(wire.name)
        return fixed or (1 if self.flexible else 2 if wire.name == "string" else 4)

    def _minimum_of_struct(self, cls: type[Message]) -> int:
        plain, _ = fields_in(cls, self.version)
        total = 1 if self.flexible else 0
        for each in plain:
            if each.struct is None or each.wire.name == "array":
                total += self._minimum_of_value(each.wire)
            else:
                total += 1 if self.version in each.nullable else self._minimum_of_struct(each.struct)
        return total

    def _tags_begin(self) -> str:
        """Write the lines that read the number of tagged fields. Return its variable."""
        count = self._number("tags")
        self._first_byte(count)
        return count

    def _unknown_tags(self) -> None:
        """Write the lines that skip the tagged fields of a struct that has none in any version."""
        count = self._tags_begin()
        with self.source.block(f"if {count}:"):  # There are rarely any.
            self._further_bytes(count)
            self._count_items(count)
            self.source.add(f"pos = skip_tags(data, pos, {count})")

    def _tags(
        self, cls: type[Message], tagged: list[Field], variables: dict[str, str], others: list[int]
    ) -> None:
        """Write the loop over tagged fields. Known tags set their variables, unknown tags are skipped.

        `others` are tags of other versions: these are refused, as in Kafka.
        """
        for each in tagged:
            variables[each.name] = self.source.fresh(each.name)
            self.source.add(f"{variables[each.name]} = {self._default(cls, each)}")
        count = self._tags_begin()
        tag, length, end = (self._number(stem) for stem in ("tag", "length", "tag_end"))
        with self.source.block(f"if {count}:"):  # There are rarely any.
            self._further_bytes(count)
            self._count_items(count)
            with self.source.block(f"for _ in range({count}):"):  # Each takes at least two bytes.
                self._uvarint(tag)
                self._uvarint(length)
                self.source.add(f"{end} = pos + {length}")
                self._refuse(f"{end} > size", "the end of the bytes before a length", length)
                for each in tagged:
                    with self.source.block(f"if {tag} == {each.tag}:"):
                        self._tagged_field(each, variables[each.name], end)
                        self.source.add("continue")
                for other in others:
                    self._refuse(
                        f"{tag} == {other}", "a tagged field that this version lacks, with a tag", tag
                    )
                self.source.add(f"pos = {end}")

    def _tagged_field(self, field: Field, variable: str, end: str) -> None:
        value = self._field(field)
        self._end_run()
        self.source.add(f"{variable} = {value}")
        self._refuse(f"pos != {end}", f"tagged field {field.name} does not fill its size: an end", "pos")
