"""Writes the lines that encode a message.

The generated code appends pieces of bytes to a list. Fixed width fields, and old lengths with them,
wait in a run until something else follows, and become one piece.
"""

import struct

from kohort.protocol.compiler.source import Source, fields_in
from kohort.protocol.schema import Field, Message, Wire


class EncoderWriter:
    """Writes the lines that encode one message in one version."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self._sink = "add"  # what the generated code calls with a piece
        self._run: list[tuple[str, str]] = []  # expressions and formats of the fixed width run

    def struct(self, cls: type[Message], value: str) -> None:
        """Write the lines that encode the struct that the expression `value` names."""
        plain, tagged = fields_in(cls, self.version)
        self._check_absent(cls, value)
        for each in plain:
            self._field(each, f"{value}.{each.name}")
        if not self.flexible:
            return
        if tagged:
            self._tags(tagged, value)
        else:
            self._run.append(("0", "B"))

    def flush(self) -> None:
        """Write the one call that encodes the pending fixed width fields."""
        if not self._run:
            return
        formats = "".join(each[1] for each in self._run)
        values = ", ".join(each[0] for each in self._run)
        self._run = []
        if not values.strip("0, "):
            self._append(repr(bytes(struct.calcsize(">" + formats))))
            return
        pack = self.source.fixed(formats, "pack")
        self._append(f"{pack}({values})")

    def _append(self, piece: str) -> None:
        self.source.add(f"{self._sink}({piece})")

    def _check_absent(self, cls: type[Message], value: str) -> None:
        """Write the checks that what the version cannot carry is at its default."""
        for each in cls.declaration().fields:
            if self.version in each.versions or each.ignorable:
                continue
            text = f"{cls.__name__}.{each.name} is not in version {self.version}"
            with self.source.block(f"if {self._is_set(each, f'{value}.{each.name}')}:"):
                self.source.add(f"raise EncodeError({text!r})")

    def _is_set(self, field: Field, value: str) -> str:
        """Return the expression for: the field differs from its default."""
        if field.default == ():  # Any empty sequence is as good as the empty tuple.
            return f"{value} is None or len({value})"
        default = self.source.literal(field.default)
        if field.wire.name == "struct":  # Mostly the default itself, which is quicker to see than to compare.
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"

    def _field(self, field: Field, value: str) -> None:
        nullable = self.version in field.nullable
        if field.wire.format:
            self._run.append((value, field.wire.format))
        elif field.wire.name == "struct":
            self._nested(field, value, nullable)
        elif field.wire.name == "array":
            self._array(field, value, nullable)
        else:
            self._value(field.wire, value, nullable, self.flexible and field.flexible)

    def _nested(self, field: Field, value: str, nullable: bool) -> None:
        assert field.struct is not None
        inner = self.source.fresh("inner")
        self.source.add(f"{inner} = {value}")
        if not nullable:
            self.struct(field.struct, inner)
            return
        self.flush()
        with self.source.block(f"if {inner} is None:"):
            self._append("b'\\x00'" if self.version in field.tagged else "b'\\xff'")
        with self.source.block("else:"):
            self._append("b'\\x01'")
            self.struct(field.struct, inner)
            self.flush()

    def _null(self, wire: Wire, value: str, nullable: bool, compact: bool) -> None:
        """Write what becomes of None; the lines of the other case come next."""
        with self.source.block(f"if {value} is None:"):
            if not nullable:
                self.source.add(f"raise EncodeError('null where version {self.version} has no null')")
            elif compact:
                self._append(repr(b"\0"))
            else:
                self._append(repr(b"\xff\xff" if wire.name == "string" else b"\xff\xff\xff\xff"))

    def _value(self, wire: Wire, value: str, nullable: bool, compact: bool) -> None:
        self.flush()
        if wire.name == "uuid":
            self._append(f"{value}.bytes")
            return
        held = self.source.fresh("v")
        self.source.add(f"{held} = {value}")
        self._null(wire, held, nullable, compact)
        with self.source.block("else:"):
            if wire.name == "string":
                self.source.add(f"{held} = {held}.encode()")
            self._length(f"len({held})", wire, compact)
            self._append(held)

    def _length(self, expression: str, wire: Wire, compact: bool) -> None:
        if compact:
            length = self.source.fresh("n")
            longer = "string_length" if wire.name == "string" else "uvarint"
            self.source.add(f"{length} = {expression} + 1")
            self._append(f"UVARINTS[{length}] if {length} < 128 else {longer}({length})")
        else:
            self._run.append((expression, "h" if wire.name == "string" else "i"))
            self.flush()

    def _array(self, field: Field, value: str, nullable: bool) -> None:
        self.flush()
        held = self.source.fresh("v")
        self.source.add(f"{held} = {value}")
        self._null(field.wire, held, nullable, self.flexible)
        with self.source.block("else:"):
            self._length(f"len({held})", field.wire, self.flexible)
            if field.element is not None and field.element.format:
                pack = self.source.bind("pack", struct.pack)
                self._append(f"{pack}('>' + str(len({held})) + '{field.element.format}', *{held})")
            else:
                self._elements(field, held)

    def _elements(self, field: Field, held: str) -> None:
        item = self.source.fresh("item")
        with self.source.block(f"for {item} in {held}:"):
            if field.struct is not None:
                self.struct(field.struct, item)
                self.flush()
            else:
                assert field.element is not None
                self._value(field.element, item, nullable=False, compact=self.flexible)

    def _tags(self, tagged: list[Field], value: str) -> None:
        """Write tagged fields whose value is not the default, each behind its tag and size."""
        self.flush()
        outer, pieces, count = self._sink, self.source.fresh("pieces"), self.source.fresh("tags")
        self.source.add(f"{pieces} = []")
        self.source.add(f"{count} = 0")
        for each in tagged:
            one = self.source.fresh("one")
            with self.source.block(f"if {self._is_set(each, f'{value}.{each.name}')}:"):
                self.source.add(f"{count} += 1")
                self.source.add(f"{one} = []")
                self._sink = f"{one}.append"
                self._field(each, f"{value}.{each.name}")
                self.flush()
                self.source.add(f"{one} = b''.join({one})")
                self.source.add(f"{pieces} += (uvarint({each.tag}), uvarint(len({one})), {one})")
        self._sink = outer
        self._append(f"uvarint({count}) + b''.join({pieces}) if {count} else b'\\x00'")
