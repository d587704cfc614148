"""Lines of generated Python, and the fields of a version, for both writers."""

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from kohort.protocol.schema import Field, Message


class Source:
    """Lines of indented Python, and the objects to which they refer."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self.lines: list[str] = []
        self.names = dict(names)
        """The objects by the names that the lines have for them."""
        self.variables: dict[str, str] = {}
        """The type of each variable that `fresh` has named: `Any`, or what a caller said."""
        self._depth = 1
        self._counter = 0

    def add(self, line: str) -> None:
        """Append one line at the current indentation."""
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append `head`. Lines added inside the context are indented once more."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str, kind: str = "Any") -> str:
        """Return a variable name that is not in use. `kind` is the type that mypyc gives the variable."""
        self._counter += 1
        name = f"{stem}_{self._counter}"
        self.variables[name] = kind
        return name

    def bind(self, stem: str, value: object) -> str:
        """Return the name of `value` in the generated code."""
        for name, bound in self.names.items():
            if bound is value:
                return name
        name = stem
        while name in self.names:
            name += "_"
        self.names[name] = value
        return name

    def literal(self, value: object, stem: str) -> str:
        """Return an expression for a default: its literal if it is simple, else a name bound to it."""
        if value is None or isinstance(value, int | float | str | bytes) or value == ():
            return repr(value)
        return self.bind(stem, value)

    def fixed(self, formats: str, method: str) -> str:
        """Return the name of a method of the big-endian `struct.Struct` of `formats`."""
        name = f"{method}_{formats.replace('?', 'T')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + formats), method)
        return name

    def build(self, header: str, title: str) -> Callable[..., object]:
        """Compile and return the function `generated` with these lines as its body."""
        text = "\n".join([header, *self.lines])
        scope = dict(self.names)
        exec(compile(text, f"<{title}>", "exec"), scope)
        return cast("Callable[..., object]", scope["generated"])


def fields_in(cls: type[Message], version: int) -> tuple[list[Field], list[Field]]:
    """Return the plain fields, in order, and the tagged fields, by tag, of `cls` in `version`."""
    present = [each for each in cls.declaration().fields if version in each.versions]
    plain = [each for each in present if version not in each.tagged]
    tagged = sorted((each for each in present if version in each.tagged), key=lambda each: each.tag)
    return plain, tagged


def tags_of_other_versions(cls: type[Message], version: int) -> list[int]:
    """Return the tags that `cls` has in other versions but not in `version`, which refuses them."""
    return [each.tag for each in cls.declaration().fields if each.tag >= 0 and version not in each.tagged]


def check_version(cls: type[Message], version: int) -> bool:
    """Return whether `version` is flexible. Raises: ValueError for a version that does not exist."""
    declared = cls.declaration()
    if version not in declared.versions:
        raise ValueError(f"{declared.name} has versions {declared.versions}, not {version}")
    return version in declared.flexible
