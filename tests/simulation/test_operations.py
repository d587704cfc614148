"""What each operation makes of a function."""

import ast

import pytest

from tests.simulation.mutant import Edit, changed
from tests.simulation.operations import (
    Operation,
    answer,
    argument,
    assign,
    before_assignment,
    compare,
    condition,
    drop_assignment,
    drop_call,
    drop_element,
    drop_if,
    drop_loop,
    holds,
    instead_of_assignment,
    instead_of_call,
    instead_of_if,
    negate,
    replace,
    returns,
    without,
)

BEFORE = """
class Log:
    async def end(self, epoch, offset=0):
        if epoch < self.epoch and self.is_open or offset:
            raise Fenced(epoch)
        elif self.closed:
            return None
        kept = (self.first, self.last)
        for each in self.files:
            await each.sync(again=True)
        offset += min(offset, self.end_offset)
        return max(offset, [each for each in kept if each.is_full])
"""
CASES = [
    (drop_call("sync"), "await each.sync(again=True)", "pass"),
    (drop_call("each.sync"), "await each.sync(again=True)", "pass"),
    (
        drop_if("is_open"),
        "if epoch < self.epoch and self.is_open or offset:\n            raise Fenced(epoch)\n        elif",
        "if",
    ),
    (drop_if("closed"), "        elif self.closed:\n            return None\n", ""),
    (drop_loop("files"), "        for each in self.files:\n            await each.sync(again=True)\n", ""),
    (drop_assignment("offset"), "        offset += min(offset, self.end_offset)\n", ""),
    (drop_element("last"), "(self.first, self.last)", "(self.first,)"),
    (instead_of_call("sync", "each.close()"), "await each.sync(again=True)", "each.close()"),
    (instead_of_assignment("kept", "kept = ()"), "kept = (self.first, self.last)", "kept = ()"),
    (
        instead_of_if("closed", "self.open()"),
        "elif self.closed:\n            return None",
        "else:\n            self.open()",
    ),
    (before_assignment("kept", "self.open()"), "kept =", "self.open()\n        kept ="),
    (answer("kept", "0"), "return max(offset, [each for each in kept if each.is_full])", "return 0"),
    (without("is_open"), "epoch < self.epoch and self.is_open or", "epoch < self.epoch or"),
    (
        without("offset"),
        "epoch < self.epoch and self.is_open or offset",
        "epoch < self.epoch and self.is_open",
    ),
    (negate("closed"), "self.closed", "not self.closed"),
    (negate("is_full"), "if each.is_full", "if not each.is_full"),
    (holds("closed", True), "self.closed", "True"),
    (condition("closed", "self.open()"), "self.closed", "self.open()"),
    (compare("epoch", "<", "<="), "epoch < self.epoch", "epoch <= self.epoch"),
    (replace("self.end_offset", "epoch"), "self.end_offset", "epoch"),
    (replace("offset", "0", index=1), "offset += min(offset", "offset += min(0"),
    (argument("sync", "again", "False"), "again=True", "again=False"),
    (argument("sync", "again", None), "again=True", ""),
    (argument("max", 0, "1"), "max(offset,", "max(1,"),
    (argument("max", 1, None), ", [each for each in kept if each.is_full])", ")"),
    (assign("kept", "()"), "(self.first, self.last)", "()"),
]


@pytest.mark.parametrize(("operation", "old", "new"), CASES, ids=lambda each: getattr(each, "words", ""))
def test_an_operation_changes_this_and_nothing_else(operation: Operation, old: str, new: str) -> None:
    edit = Edit("kohort.x", "Log.end", operation)
    assert BEFORE.count(old) >= 1
    assert changed(edit, BEFORE) == normal(BEFORE.replace(old, new, 1))


def test_a_function_can_do_nothing_but_return() -> None:
    found = changed(Edit("kohort.x", "Log.end", returns("False")), BEFORE)
    assert found == normal("class Log:\n    async def end(self, epoch, offset=0):\n        return False")


def test_a_function_within_another_and_a_module_have_their_names() -> None:
    source = "LIMIT = 3\ndef outer():\n    def inner():\n        return LIMIT\n    return inner"
    assert "return 4" in changed(Edit("kohort.x", "outer.inner", returns("4")), source)
    assert "LIMIT = 5" in changed(Edit("kohort.x", "", assign("LIMIT", "5")), source)


def normal(source: str) -> str:
    """Return the source without its comments and its layout."""
    return ast.unparse(ast.parse(source)) + "\n"
