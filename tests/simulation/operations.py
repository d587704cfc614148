"""What a mutant does to a function, said by names instead of lines: `drop_call("turn.log")`.

An operation looks at the syntax tree of one function, or of a module where no function is named. A mention,
such as `generation_id` or `group.is_empty`, is found in every expression that has this name or ends with it.
Where several places match, `index` says which, from 0 in the order of the source.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

Act = Callable[[], None]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Named = Function | ast.ClassDef
COMPARISONS: dict[str, type[ast.cmpop]] = {
    "==": ast.Eq,
    "!=": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "is": ast.Is,
    "is not": ast.IsNot,
    "in": ast.In,
    "not in": ast.NotIn,
}


class Place(NamedTuple):
    """A place that an operation matches, as a person reads it, and what changes it."""

    text: str
    change: Act


@dataclass(frozen=True, slots=True)
class Operation:
    """A change of a function: how to say it, and the places where it could be made."""

    words: str
    find: Callable[[ast.AST], Iterator[Place]]
    index: int | None = None


# -- operations -----------------------------------------------------------------------------------------


def drop_call(callee: str, index: int | None = None) -> Operation:
    """Leave a statement out that is nothing but a call."""
    return _on_statements(f"drop the call of {callee}", lambda each: _is_call(each, callee), [], index)


def drop_if(mention: str, index: int | None = None) -> Operation:
    """Leave an `if` out by what its condition mentions, with all that it guards; its `else` stays."""

    def find(scope: ast.AST) -> Iterator[Place]:
        for slot, statement in _statements(scope):
            if isinstance(statement, ast.If) and _mentions(statement.test, mention):
                yield _put(slot, statement.orelse, f"if {ast.unparse(statement.test)}")

    return Operation(f"drop the if that mentions {mention}", find, index)


def drop_loop(mention: str, index: int | None = None) -> Operation:
    """Leave a `for` out by what it iterates over."""
    return _on_statements(
        f"drop the loop over {mention}",
        lambda each: isinstance(each, ast.For) and _mentions(each.iter, mention),
        [],
        index,
    )


def drop_assignment(target: str, index: int | None = None) -> Operation:
    """Leave an assignment out, such as `a = 1` or `a += 1`."""
    return _on_statements(
        f"drop the assignment to {target}", lambda each: target in _targets(each), [], index
    )


def instead_of_call(callee: str, statements: str, index: int | None = None) -> Operation:
    """Do something else in place of a statement that is nothing but a call."""
    return _on_statements(
        f"do {statements!r} instead of the call of {callee}",
        lambda each: _is_call(each, callee),
        ast.parse(statements).body,
        index,
    )


def instead_of_assignment(target: str, statements: str, index: int | None = None) -> Operation:
    """Do something else in place of an assignment."""
    return _on_statements(
        f"do {statements!r} instead of the assignment to {target}",
        lambda each: target in _targets(each),
        ast.parse(statements).body,
        index,
    )


def instead_of_if(mention: str, statements: str, index: int | None = None) -> Operation:
    """Do something else in place of an `if`, whatever its condition says."""
    return _on_statements(
        f"do {statements!r} instead of the if that mentions {mention}",
        lambda each: isinstance(each, ast.If) and _mentions(each.test, mention),
        ast.parse(statements).body,
        index,
    )


def before_assignment(target: str, statements: str, index: int | None = None) -> Operation:
    """Do something more before an assignment."""

    def find(scope: ast.AST) -> Iterator[Place]:
        for slot, statement in _statements(scope):
            if target in _targets(statement):
                yield _put(slot, [*ast.parse(statements).body, statement], ast.unparse(statement))

    return Operation(f"do {statements!r} before the assignment to {target}", find, index)


def returns(value: str) -> Operation:
    """Do nothing but return this."""

    def find(scope: ast.AST) -> Iterator[Place]:
        assert isinstance(scope, Function)
        body = scope.body

        def put() -> None:
            body[:] = [ast.Return(_expression(value))]

        yield Place(value, put)

    return Operation(f"return {value}", find)


def answer(mention: str, value: str, index: int | None = None) -> Operation:
    """Return another value where the returned expression mentions this."""

    def find(scope: ast.AST) -> Iterator[Place]:
        for _, statement in _statements(scope):
            if isinstance(statement, ast.Return) and statement.value and _mentions(statement.value, mention):
                yield Place(ast.unparse(statement), _set_value(statement, _expression(value)))

    return Operation(f"return {value} where what is returned mentions {mention}", find, index)


def without(mention: str, index: int | None = None) -> Operation:
    """Leave out what mentions this of several things that are joined by `and`, or by `or`."""

    def find(scope: ast.AST) -> Iterator[Place]:
        for slot in _slots(scope):
            node = slot.node
            if not isinstance(node, ast.BoolOp):
                continue
            for operand in node.values:
                if _mentions(operand, mention) and not any(
                    isinstance(each, ast.BoolOp) and _mentions(each, mention) for each in ast.walk(operand)
                ):
                    yield Place(ast.unparse(operand), _drop_operand(slot, node, operand))

    return Operation(f"leave out what mentions {mention}", find, index)


def drop_element(mention: str, index: int | None = None) -> Operation:
    """Leave out what mentions this of a tuple, a list or a set that is written out."""

    def find(scope: ast.AST) -> Iterator[Place]:
        for slot in _slots(scope):
            if isinstance(slot.node, ast.Tuple | ast.List | ast.Set):
                elements = slot.node.elts
                for element in elements:
                    if _mentions(element, mention):
                        yield Place(ast.unparse(slot.node), _remove(elements, element))

    return Operation(f"leave the element out that mentions {mention}", find, index)


def negate(mention: str, index: int | None = None) -> Operation:
    """Do the opposite where a condition mentions this."""

    def opposite(test: ast.expr) -> ast.expr:
        return ast.UnaryOp(ast.Not(), test)

    return _on_conditions(f"negate the condition that mentions {mention}", mention, opposite, index)


def holds(mention: str, value: bool, index: int | None = None) -> Operation:
    """Have a condition that mentions this always hold, or never."""
    return _on_conditions(
        f"have the condition that mentions {mention} be {value}",
        mention,
        lambda test: ast.Constant(value),
        index,
    )


def condition(mention: str, test: str, index: int | None = None) -> Operation:
    """Have something else decide where a condition mentions this."""
    return _on_conditions(
        f"ask {test} where a condition mentions {mention}", mention, lambda _: _expression(test), index
    )


def compare(mention: str, old: str, new: str, index: int | None = None) -> Operation:
    """Compare by another operator, where the comparison mentions this on either side."""

    def find(scope: ast.AST) -> Iterator[Place]:
        for slot in _slots(scope):
            node = slot.node
            if isinstance(node, ast.Compare) and _mentions(node, mention):
                for number, operator in enumerate(node.ops):
                    if isinstance(operator, COMPARISONS[old]):
                        yield Place(ast.unparse(node), _set_item(node.ops, number, COMPARISONS[new]()))

    return Operation(f"compare {mention} by {new} instead of {old}", find, index)


def replace(old: str, new: str, index: int | None = None) -> Operation:
    """Put one expression in another's place."""
    wanted = ast.dump(_expression(old))

    def find(scope: ast.AST) -> Iterator[Place]:
        for slot in _slots(scope):
            if isinstance(slot.node, ast.expr) and ast.dump(slot.node) == wanted:
                yield Place(ast.unparse(slot.node), slot.setter(_expression(new)))

    return Operation(f"replace {old} by {new}", find, index)


def argument(callee: str, which: int | str, value: str | None, index: int | None = None) -> Operation:
    """Give a call another argument, by its position or keyword; None leaves it out."""

    def find(scope: ast.AST) -> Iterator[Place]:
        for slot in _slots(scope):
            if isinstance(slot.node, ast.Call) and _is_name(slot.node.func, callee):
                act = _argument(slot.node, which, value)
                if act is not None:
                    yield Place(ast.unparse(slot.node), act)

    return Operation(f"give {callee} {value} as {which}", find, index)


def assign(target: str, value: str, index: int | None = None) -> Operation:
    """Assign another value."""

    def find(scope: ast.AST) -> Iterator[Place]:
        for _, statement in _statements(scope):
            if isinstance(statement, ast.Assign | ast.AnnAssign) and target in _targets(statement):
                yield Place(ast.unparse(statement), _set_value(statement, _expression(value)))

    return Operation(f"assign {value} to {target}", find, index)


# -- how they do it -------------------------------------------------------------------------------------


class _Slot(NamedTuple):
    """A node, and where it hangs."""

    node: ast.AST
    parent: ast.AST
    field: str
    place: int | None

    def setter(self, new: ast.AST) -> Act:
        """Return what puts another node there."""
        if self.place is None:
            return lambda: setattr(self.parent, self.field, new)
        items = getattr(self.parent, self.field)
        return _set_item(items, self.place, new)


def _slots(scope: ast.AST) -> Iterator[_Slot]:
    """Yield every node below this one, in the order of the source."""
    for field, value in ast.iter_fields(scope):
        children = value if isinstance(value, list) else [value]
        for place, child in enumerate(children):
            if isinstance(child, ast.AST):
                yield _Slot(child, scope, field, place if isinstance(value, list) else None)
                yield from _slots(child)


def _statements(scope: ast.AST) -> Iterator[tuple[_Slot, ast.stmt]]:
    """Yield every statement below."""
    for slot in _slots(scope):
        if isinstance(slot.node, ast.stmt):
            yield slot, slot.node


def _on_statements(
    words: str, matches: Callable[[ast.stmt], bool], new: list[ast.stmt], index: int | None
) -> Operation:
    def find(scope: ast.AST) -> Iterator[Place]:
        for slot, statement in _statements(scope):
            if matches(statement):
                yield _put(slot, new, ast.unparse(statement).partition("\n")[0])

    return Operation(words, find, index)


def _put(slot: _Slot, new: list[ast.stmt], text: str) -> Place:
    statements: list[ast.AST] = getattr(slot.parent, slot.field)

    def put() -> None:
        place = statements.index(slot.node)
        statements[place : place + 1] = new
        if not statements and slot.field == "body":
            statements.append(ast.Pass())

    return Place(text, put)


def _on_conditions(
    words: str, mention: str, make: Callable[[ast.expr], ast.expr], index: int | None
) -> Operation:
    def find(scope: ast.AST) -> Iterator[Place]:
        for slot in _slots(scope):
            is_test = slot.field == "test" or (
                slot.field == "ifs" and isinstance(slot.parent, ast.comprehension)
            )
            if is_test and isinstance(slot.node, ast.expr) and _mentions(slot.node, mention):
                yield Place(ast.unparse(slot.node), slot.setter(make(slot.node)))

    return Operation(words, find, index)


def _drop_operand(slot: _Slot, node: ast.BoolOp, operand: ast.expr) -> Act:
    rest = [each for each in node.values if each is not operand]
    return slot.setter(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))


def _argument(call: ast.Call, which: int | str, value: str | None) -> Act | None:
    if isinstance(which, int):
        if which >= len(call.args):
            return None
        new = [] if value is None else [_expression(value)]
        return lambda: call.args.__setitem__(slice(which, which + 1), new)
    present = [each for each in call.keywords if each.arg == which]
    if not present:
        return None
    if value is None:
        return lambda: call.keywords.remove(present[0])
    return lambda: setattr(present[0], "value", _expression(value))


def _set_item(items: list[ast.AST] | list[ast.cmpop], place: int, new: ast.AST) -> Act:
    return lambda: items.__setitem__(place, new)  # type: ignore[arg-type]  # Of the list's kind.


def _remove(items: list[ast.expr], item: ast.expr) -> Act:
    return lambda: items.remove(item)


def _set_value(statement: ast.Assign | ast.AnnAssign | ast.Return, value: ast.expr) -> Act:
    return lambda: setattr(statement, "value", value)


def _is_call(statement: ast.stmt, callee: str) -> bool:
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    return isinstance(value, ast.Call) and _is_name(value.func, callee)


def _targets(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign):
        return [ast.unparse(each) for each in statement.targets]
    if isinstance(statement, ast.AnnAssign | ast.AugAssign):
        return [ast.unparse(statement.target)]
    return []


def _mentions(node: ast.AST, mention: str) -> bool:
    return any(_is_name(each, mention) for each in ast.walk(node))


def _is_name(node: ast.AST, name: str) -> bool:
    """Whether a node is that name, or ends with it: `group.is_empty` is `is_empty`, too."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    text = ast.unparse(node)
    return text == name or text.endswith(f".{name}")


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
