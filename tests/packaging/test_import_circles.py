"""No module of kohort imports, by way of others, itself; imports for type checkers count."""

import grimp

from tests.rooms import PORTIONS


def circles(graph: grimp.ImportGraph) -> set[tuple[str, ...]]:
    """Return the shortest circle of imports through each import that is part of one, sorted by name."""
    imported = {
        module: {each for each in graph.find_modules_directly_imported_by(module) - {module} if _ships(each)}
        for module in graph.modules
        if _ships(module)
    }
    while leaves := {module for module, others in imported.items() if not others}:
        imported = {module: others - leaves for module, others in imported.items() if module not in leaves}
    chains = (
        graph.find_shortest_chain(importer=other, imported=module)
        for module, others in imported.items()
        for other in others
    )
    return {tuple(sorted(chain)) for chain in chains if chain is not None}


def _ships(module: str) -> bool:
    return not module.rpartition(".")[2].startswith(("test_", "conftest"))


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph(*(f"kohort.{each}" for each in sorted(PORTIONS)), cache_dir=None)
    found = circles(graph)
    assert not found, "\n".join(" <-> ".join(each) for each in sorted(found))


def test_circles_of_any_length_are_found() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in (
        ("a", "b"),
        ("b", "c"),
        ("c", "a"),
        ("c", "d"),
        ("e", "a"),
        ("f", "g"),
        ("g", "f"),
    ):
        graph.add_import(importer=importer, imported=imported)
    assert circles(graph) == {("a", "b", "c"), ("f", "g")}
