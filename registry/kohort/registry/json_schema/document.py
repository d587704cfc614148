"""A JSON Schema with the documents that it refers to."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import msgspec

from kohort.registry.errors import InvalidSchema
from kohort.registry.json_text import read_json

DEPTH_MAX = 100
LIST_MAX = 1_000
"""Longer lists need values of one type: to find equal ones among others takes long."""
REFERRED_MAX = 20_000
KNOWN_ELSEWHERE = ("http://json-schema.org/", "https://json-schema.org/")
"""Schemas of schemas, which nobody has to register."""
_NO_SCHEMAS = frozenset(("enum", "const", "default", "examples"))


class Document:
    """One text, and where its parts have addresses."""

    def __init__(self, text: str, name: str = "") -> None:
        """Read the text of a schema. Raises: InvalidSchema for what is no JSON, or no schema at all."""
        self.root: Any = read_json(text)
        if not isinstance(self.root, (dict, bool)):
            raise InvalidSchema("it is neither an object nor true nor false")
        given = self.root.get("$id", "") if isinstance(self.root, dict) else ""
        self.base = given if isinstance(given, str) and given else name
        dialect = self.root.get("$schema") if isinstance(self.root, dict) else None
        self.heeds_beside_ref = isinstance(dialect, str) and ("2019-09" in dialect or "2020-12" in dialect)
        self.named: dict[str, Any] = {"": self.root}
        """Parts by `#anchor`, and by the addresses that they give themselves."""
        for part in _parts(self.root, 0):
            self._name(part)

    def _name(self, part: Mapping[str, Any]) -> None:
        identity, anchor = part.get("$id"), part.get("$anchor")
        if isinstance(identity, str) and part is not self.root:
            self.named.setdefault(self._whole(identity), part)
        if isinstance(anchor, str):
            self.named.setdefault(f"#{anchor}", part)

    def _whole(self, identity: str) -> str:
        try:
            return identity if identity.startswith("#") else urljoin(self.base, identity)
        except ValueError as error:
            raise InvalidSchema(f"the $id {identity} is no address: {error}") from None

    def references(self) -> Iterator[str]:
        """Yield every `$ref`."""
        for part in _parts(self.root, 0):
            if isinstance(reference := part.get("$ref"), str):
                yield reference

    def at(self, fragment: str) -> Any:
        """Return the part that a fragment names. Raises: KeyError."""
        if not fragment.startswith("/"):
            return self.named[f"#{fragment}" if fragment else ""]
        found = self.root
        for step in unquote(fragment)[1:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict):
                found = found[name]
            else:
                raise KeyError(fragment)
        return found


class Place(msgspec.Struct, frozen=True, eq=False):
    """A schema within a document, with all that it can refer to."""

    node: Any
    document: Document
    others: Mapping[str, Document]

    def within(self, node: Any) -> "Place":
        """Return a schema of the same document."""
        return Place(node, self.document, self.others)

    def resolved(self) -> "Place":
        """Return what a `$ref` leads to; itself where it has none. Raises: InvalidSchema."""
        found, seen = self, 0
        while isinstance(found.node, dict) and isinstance(reference := found.node.get("$ref"), str):
            seen += 1
            if seen > DEPTH_MAX:
                raise InvalidSchema(f"$ref {reference} leads to itself")
            if reference.startswith(KNOWN_ELSEWHERE):
                return found
            found = found.follow(reference)
        return found

    def follow(self, reference: str) -> "Place":
        """Return what a `$ref` of this document refers to. Raises: InvalidSchema."""
        try:
            address, fragment = urldefrag(reference)
            whole = urljoin(self.document.base, address) if address else ""
            if not address or whole == self.document.base:
                return self.within(self.document.at(fragment))
            if whole in self.document.named:
                return self.within(self.document.named[whole])
            other = self.others.get(address) or self.others[whole]
            return Place(other.at(fragment), other, self.others)
        except (KeyError, ValueError):
            raise InvalidSchema(f"$ref {reference} refers to nothing: give it as a reference") from None


def read(text: str, dependencies: Sequence[tuple[str, str]]) -> Place:
    """Return the schema of a text, beside what it depends on. Raises: InvalidSchema."""
    others: dict[str, Document] = {}
    for name, each in dependencies:
        document = Document(each, name)
        others[name] = document
        others.setdefault(document.base, document)
    document = Document(text)
    return Place(document.root, document, others)


def check_addresses(place: Place) -> None:
    """Return if a document's own address and that of its draft are addresses. Raises: InvalidSchema."""
    root = place.document.root
    for name in ("$schema", "$id") if isinstance(root, dict) else ():
        address = root.get(name, "")
        if not isinstance(address, str):
            raise InvalidSchema(f"its {name} is no text")
        try:
            urlsplit(address)
        except ValueError as error:
            raise InvalidSchema(f"its {name} is no address: {error}") from None


def referred(place: Place) -> list[Any]:
    """Return what `$ref`s lead to, as far as a draft does not say that there are schemas.

    Raises: InvalidSchema if one does not lead to a schema.
    """
    found: dict[int, Any] = {}
    places = ("#/definitions/", "#/$defs/") if place.document.heeds_beside_ref else ("#/definitions/",)
    for each in place.document.references():
        if each.startswith(KNOWN_ELSEWHERE):
            continue
        target = place.follow(each).resolved()
        if not isinstance(target.node, (dict, bool)):
            raise InvalidSchema(f"$ref {each} refers to no schema")
        is_known = each.count("/") == 2 and each.startswith(places)
        if not is_known and target.node is not target.document.root:
            found[id(target.node)] = target.node
    parts = chain.from_iterable(_parts(each, 0) for each in found.values())
    if next(islice(parts, REFERRED_MAX, None), None) is not None:
        raise InvalidSchema(f"its $refs lead to more than {REFERRED_MAX} parts that are no definitions")
    return list(found.values())


def _parts(node: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the objects of a document that may be schemas. Raises: InvalidSchema for too many levels."""
    if depth > DEPTH_MAX:
        raise InvalidSchema("it is nested too deeply")
    if isinstance(node, list) and len(node) > LIST_MAX and len({type(each) for each in node}) > 1:
        raise InvalidSchema(f"a list of more than {LIST_MAX} has values of several types")
    if isinstance(node, dict):
        yield node
        for name, each in node.items():
            if name not in _NO_SCHEMAS or isinstance(each, list):
                yield from _parts(each, depth + 1)
    elif isinstance(node, list):
        if len(node) > LIST_MAX and isinstance(node[0], (dict, list)):
            raise InvalidSchema(f"a list has more than {LIST_MAX} schemas")
        for each in node:
            yield from _parts(each, depth + 1)
