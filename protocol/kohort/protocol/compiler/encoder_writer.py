"""Writes the lines that encode a message.

The generated code adds pieces of bytes to a list: all pieces between two loops at once. A run of fixed width
fields, with lengths of fixed width, becomes one piece.
"""

import struct

from kohort.protocol.compiler.source import Source, fields_in
from kohort.protocol.schema import ARRAY, Field, Message, Wire

PIECES_MAX = 4_096


def joins_pieces(cls: type[Message], version: int) -> bool:
    """Return whether a message has arrays of structs, and no fields of bytes, which must not be copied."""
    plain, tagged = fields_in(cls, version)
    return any(each.wire.name == "array" and each.struct is not None for each in plain) and not any(
        _has_bytes(each, version) for each in (*plain, *tagged)
    )


def _has_bytes(field: Field, version: int) -> bool:
    if field.struct is None:
        return field.wire.name in {"bytes", "records"}
    plain, tagged = fields_in(field.struct, version)
    return any(_has_bytes(each, version) for each in (*plain, *tagged))


class EncoderWriter:
    """Writes the lines that encode one message in one version."""

    def __init__(self, source: Source, version: int, flexible: bool, *, joins_pieces: bool = False) -> None:
        """Where it `joins_pieces`, many pieces are joined: each piece takes ten times its bytes of memory."""
        self.source = source
        self._joins_pieces = joins_pieces
        self.version = version
        self.flexible = flexible
        self._depth = 0  # of nested loops
        self._list = "parts"  # The generated code adds pieces to the list of this name.
        self._pieces: list[str] = []  # expressions of the pieces that are not yet added
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
        """Write the line that adds all pending pieces."""
        self._end_run()
        if self._pieces:
            self.source.add(f"{self._list} += ({', '.join(self._pieces)},)")
            self._pieces = []

    def _end_run(self) -> None:
        """Turn the pending fixed width fields into one piece."""
        if not self._run:
            return
        formats = "".join(each[1] for each in self._run)
        values = ", ".join(each[0] for each in self._run)
        self._run = []
        if not values.strip("0, "):
            self._pieces.append(repr(bytes(struct.calcsize(">" + formats))))
        else:
            self._pieces.append(f"{self.source.fixed(formats, 'pack')}({values})")

    def _append(self, piece: str) -> None:
        self._end_run()
        self._pieces.append(piece)

    def _check_absent(self, cls: type[Message], value: str) -> None:
        """Write the checks that fields which the version lacks have their default."""
        for each in cls.declaration().fields:
            if self.version in each.versions or each.ignorable:
                continue
            text = f"{cls.__name__}.{each.name} is not in version {self.version}"
            with self.source.block(f"if {self._is_set(each, f'{value}.{each.name}')}:"):
                self.source.add(f"raise EncodeError({text!r})")

    def _is_set(self, field: Field, value: str) -> str:
        """Return the expression for: the field differs from its default."""
        if field.default == ():  # Any empty sequence equals the default.
            return f"{value} is None or len({value})"
        default = self.source.literal(field.default, f"{field.name}_default")
        if field.wire.name == "struct":  # Usually the default object itself: `is` is faster.
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
            self.flush()
        with self.source.block("else:"):
            self._append("b'\\x01'")
            self.struct(field.struct, inner)
            self.flush()

    def _value(self, wire: Wire, value: str, nullable: bool, compact: bool) -> None:
        if wire.name == "uuid":
            self._append(f"{value}.bytes")
            return
        held = self.source.fresh("v")
        self.source.add(f"{held} = {value}")
        self._length(held, wire, nullable, compact)
        self._append(held)

    def _length(self, held: str, wire: Wire, nullable: bool, compact: bool) -> None:
        """Write the length of `held`. For None write null, and make `held` empty."""
        length = self.source.fresh("n")
        with self.source.block(f"if {held} is None:"):
            if nullable:
                null, nothing = 0 if compact else -1, () if wire is ARRAY else b""
                self.source.add(f"{length}, {held} = {null}, {nothing!r}")
            else:
                self.source.add(f"raise EncodeError('null where version {self.version} has no null')")
        with self.source.block("else:"):
            if wire.name == "string":
                self.source.add(f"{held} = {held}.encode()")
            self.source.add(f"{length} = len({held}){' + 1' if compact else ''}")
        if compact:
            longer = "string_length" if wire.name == "string" else "uvarint"
            self._append(f"UVARINTS[{length}] if {length} < 128 else {longer}({length})")
        else:
            self._run.append((length, "h" if wire.name == "string" else "i"))

    def _array(self, field: Field, value: str, nullable: bool) -> None:
        held = self.source.fresh("v")
        self.source.add(f"{held} = {value}")
        self._length(held, field.wire, nullable, self.flexible)
        if field.element is not None and field.element.format:
            pack = self.source.bind("pack", struct.pack)
            self._append(f"{pack}('>' + str(len({held})) + '{field.element.format}', *{held})")
        else:
            self._elements(field, held)

    def _elements(self, field: Field, held: str) -> None:
        self.flush()
        item = self.source.fresh("item")
        depth, self._depth = self._depth, self._depth + 1
        with self.source.block(f"for {item} in {held}:"):
            if field.struct is not None:
                self.struct(field.struct, item)
            else:
                assert field.element is not None
                self._value(field.element, item, nullable=False, compact=self.flexible)
            self.flush()
            if self._joins_pieces and depth == 0 and self._list == "parts":
                with self.source.block(f"if len(parts) > {PIECES_MAX}:"):
                    self.source.add("done.append(b''.join(parts))")
                    self.source.add("parts.clear()")
        self._depth = depth

    def _tags(self, tagged: list[Field], value: str) -> None:
        """Write tagged fields whose value is not the default, each after its tag and size."""
        self.flush()
        outer, pieces, count = self._list, self.source.fresh("pieces"), self.source.fresh("tags")
        self.source.add(f"{pieces} = []")
        self.source.add(f"{count} = 0")
        for each in tagged:
            one = self.source.fresh("one")
            with self.source.block(f"if {self._is_set(each, f'{value}.{each.name}')}:"):
                self.source.add(f"{count} += 1")
                self.source.add(f"{one} = []")
                self._list = one
                self._field(each, f"{value}.{each.name}")
                self.flush()
                self.source.add(f"{one} = b''.join({one})")
                self.source.add(f"{pieces} += (uvarint({each.tag}), uvarint(len({one})), {one})")
        self._list = outer
        self._append(f"uvarint({count}) + b''.join({pieces}) if {count} else b'\\x00'")
