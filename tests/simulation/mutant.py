"""A mutant: a fault that is put into a copy of the source, said by modules, functions and operations.

    Mutant("an old generation may commit", Edit(GROUP, "Group.committer", compare("epoch", "!=", ">")))

Operations are in `operations`. An edit whose module or function is not there any more, or whose operation
does not match once, is a `StaleMutant`: it says where a function of that name is, and what has matched.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.operations import Named, Operation, Place

REPOSITORY = Path(__file__).parents[2]
ROOMS = ("broker", "storage", "protocol", "client")


class StaleMutant(Exception):
    """The source has changed, so that the mutant does not match it any more."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one function, `Class.method` or `outer.inner`; of the module itself where that is empty."""

    module: str
    function: str
    operation: Operation


class Mutant:
    """One fault, which may take several edits.

    `first_seed` is where the seeds with a bad disk begin: near one that has seen it, where few do. One that
    `is_of_transactions` is looked for by seeds with transactions alone, from there on; one that
    `is_of_sharing` by seeds with share groups.
    """

    def __init__(
        self,
        name: str,
        *edits: Edit,
        first_seed: int = 0,
        is_of_transactions: bool = False,
        is_of_sharing: bool = False,
    ) -> None:
        self.name = name
        self.edits = edits
        self.first_seed = first_seed
        self.is_of_transactions = is_of_transactions
        self.is_of_sharing = is_of_sharing

    def apply(self, root: Path = REPOSITORY) -> dict[Path, str]:
        """Return each file that changes, below `root`, with its new source. Raises: StaleMutant."""
        sources: dict[Path, str] = {}
        for edit in self.edits:
            path = file_of(edit, root)
            source = sources.get(path) or path.read_text(encoding="utf-8")
            sources[path] = changed(edit, source)
        return sources


def file_of(edit: Edit, root: Path) -> Path:
    """Return the file of an edit's module. Raises: StaleMutant."""
    for room in ROOMS:
        folder = root / room / edit.module.replace(".", "/")
        for path in (folder.with_name(f"{folder.name}.py"), folder / "__init__.py"):
            if path.exists():
                return path
    raise StaleMutant(f"there is no module {edit.module}; {_elsewhere(edit, root)}")


def changed(edit: Edit, source: str, root: Path = REPOSITORY) -> str:
    """Return a module's source with the change; its comments are gone. Raises: StaleMutant."""
    tree = ast.parse(source)
    scope: ast.AST | None = functions(tree).get(edit.function) if edit.function else tree
    if scope is None:
        raise StaleMutant(f"{edit.module} has no {edit.function}; {_elsewhere(edit, root)}")
    operation = edit.operation
    places = list(operation.find(scope))
    said = f"{edit.module}, {edit.function or 'the module'}: {operation.words}"
    if operation.index is None and len(places) != 1:
        raise StaleMutant(f"{said}: matches {len(places)} places, and has to match one{_listed(places)}")
    if operation.index is not None and operation.index >= len(places):
        raise StaleMutant(f"{said}: has no place number {operation.index}{_listed(places)}")
    places[operation.index or 0].change()
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def functions(tree: ast.Module) -> dict[str, Named]:
    """Return every function and class of a module by its qualified name."""
    return dict(_named(tree, ""))


def _named(node: ast.AST, prefix: str) -> Iterator[tuple[str, Named]]:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, Named):
            yield f"{prefix}{child.name}", child
            inner = f"{prefix}{child.name}."
        yield from _named(child, inner)


def _elsewhere(edit: Edit, root: Path) -> str:
    """Return where functions of an edit's last name are."""
    last = edit.function.rpartition(".")[2]
    found = []
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if f" {last}" in source and not path.name.startswith("test_"):
                module = ".".join(path.relative_to(root / room).with_suffix("").parts)
                names = functions(ast.parse(source))
                found += [f"{module}, {name}" for name in names if name.rpartition(".")[2] == last]
    return f"of that name: {'; '.join(found) or 'none'}"


def _listed(places: list[Place]) -> str:
    return "".join(f"\n  {number}: {place.text}" for number, place in enumerate(places))
