"""Arrays of JSON Schema: places that have schemas of their own, and the rest."""

from typing import Any, Protocol

from kohort.registry.comparing import Problems, problem
from kohort.registry.json_schema.document import Place
from kohort.registry.json_schema.values import limit_problems, number


class Comparing(Protocol):
    """What compares schemas within."""

    def compare(self, reader: Place, writer: Place, path: str) -> Problems:
        """Return the problems of a pair."""
        ...


def array_problems(fit: Comparing, reader: Place, writer: Place, path: str) -> Problems:
    """Return the problems of arrays."""
    new, old = reader.node, writer.node
    found = limit_problems(new, old, ("maxItems",), ("minItems",), path)
    if new.get("uniqueItems") is True and old.get("uniqueItems") is not True:
        found += (problem("UNIQUE_ITEMS_ADDED", f"{path}uniqueItems", "items have to differ"),)
    places, rest = items_of(new)
    places_before, rest_before = items_of(old)
    most = number(old.get("maxItems"))
    for index in range(max(len(places), len(places_before))):
        if most is not None and index >= most:
            break
        item = places[index] if index < len(places) else rest
        before = places_before[index] if index < len(places_before) else rest_before
        found += fit.compare(reader.within(item), writer.within(before), f"{path}items/{index}/")
    if most is None or most > max(len(places), len(places_before)):
        found += fit.compare(reader.within(rest), writer.within(rest_before), f"{path}items/")
    return found + _contains_problems(fit, reader, writer, path)


def items_of(node: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the schemas of the first places, and that of all behind them."""
    if isinstance(places := node.get("prefixItems"), list):
        return places, node.get("items", node.get("unevaluatedItems", True))
    items = node.get("items", node.get("additionalItems", node.get("unevaluatedItems", True)))
    if isinstance(items, list):
        return items, node.get("additionalItems", node.get("unevaluatedItems", True))
    return [], items


def _contains_problems(fit: Comparing, reader: Place, writer: Place, path: str) -> Problems:
    new, old = reader.node, writer.node
    if "contains" not in new:
        return ()
    if "contains" not in old:
        return (problem("CONTAINS_ADDED", f"{path}contains", "an item is asked for"),)
    found = fit.compare(reader.within(new["contains"]), writer.within(old["contains"]), f"{path}contains/")
    if "maxContains" in new:
        found += fit.compare(
            writer.within(old["contains"]), reader.within(new["contains"]), f"{path}contains/"
        )
    few, few_before = number(new.get("minContains", 1)), number(old.get("minContains", 1))
    if few is not None and few_before is not None and few > few_before:
        found += (problem("MIN_CONTAINS_INCREASED", f"{path}minContains", f"it is {few}"),)
    return found + limit_problems(new, old, ("maxContains",), (), path)
