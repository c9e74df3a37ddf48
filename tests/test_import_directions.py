"""Imports go one way: no circles, and no module that knows one above it.

Imports within functions count, and those that only a type checker sees: of two modules that name
each other neither can be understood alone. The directions are those of ``.importlinter``, which
leaves type checkers' imports out, since a core may name a type of anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import permutations

import pytest

from tests.shape import MODULES, PACKAGES, ROOT, tree

Graph = Mapping[str, set[str]]

LAYERS = [package for package in PACKAGES if package != "peermesh"]


def graph_of(sources: Mapping[str, ast.Module]) -> Graph:
    """Say of each module, by its file, which others its source imports anywhere."""
    names = {path: path.removesuffix(".py").replace("/", ".") for path in sources}
    modules = {name.removesuffix(".__init__") for name in names.values()}
    return {
        name.removesuffix(".__init__"): {
            found for found in _imports(sources[path], name, modules) if found in modules
        }
        for path, name in names.items()
    }


def _imports(source: ast.Module, name: str, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = node.module or ""
            if node.level:
                above = name.split(".")[: -node.level]
                home = ".".join([*above, home] if home else above)
            for alias in node.names:
                full = f"{home}.{alias.name}"
                yield full if full in modules else home


def circle(graph: Graph) -> list[str]:
    """Give modules of which each imports the next, and the last the first; none if there are none.

    A module that imports itself is a circle, too.
    """
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def directions(contracts: ConfigParser) -> Iterator[tuple[str, str]]:
    """Give each pair of packages or modules of which the first may not import the second."""
    for title in contracts.sections():
        contract = contracts[title]
        if contract.get("type") != "layers":
            continue
        for container in contract.get("containers", "").split() or [""]:
            above: list[str] = []
            for line in contract["layers"].split("\n"):
                inside = f"{container}." if container else ""
                words = line.replace("|", " ").replace(":", " ").split()
                layer = [inside + word.strip("()") for word in words]
                yield from ((low, high) for low in layer for high in above)
                if "|" in line:
                    yield from permutations(layer, 2)
                above += layer


def way(graph: Graph, source: str, target: str) -> list[str]:
    """Give the modules by which one package comes to import another; none if it does not."""
    todo = [[name] for name in graph if _is_in(name, source)]
    seen = {path[0] for path in todo}
    for path in todo:  # it grows meanwhile
        if _is_in(path[-1], target):
            return path
        new = graph[path[-1]] - seen
        seen |= new
        todo += [[*path, name] for name in sorted(new)]
    return []


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


CONTRACTS = ConfigParser()
CONTRACTS.read(ROOT / ".importlinter")


@cache
def product() -> Graph:
    """Read all of the product, once; not where its tests are only collected."""
    return graph_of({path: tree(path) for path in MODULES})


@pytest.mark.parametrize("package", LAYERS)
def test_no_modules_import_each_other(package: str) -> None:
    graph = {name: found for name, found in product().items() if _is_in(name, package)}
    assert circle(graph) == []


@pytest.mark.parametrize(("low", "high"), sorted(directions(CONTRACTS)))
def test_what_is_below_knows_nothing_above(low: str, high: str) -> None:
    assert way(product(), low, high) == []


def test_the_directions_are_those_of_rooms_and_packages() -> None:
    found = set(directions(CONTRACTS))
    assert ("wire", "endpoint") in found
    assert {("stores", "net"), ("net", "stores")} <= found
    assert ("endpoint.replicas", "endpoint.loop") in found
    assert ("endpoint.replicas.stores", "endpoint.replicas.logs") in found
    assert all(low in product() for low, _ in found), "a name of the contracts is no module"


@pytest.mark.parametrize(
    "back",
    [
        "from house.one import A",
        "from house import one",
        "import house.one",
        "from . import one",
        "from .one import A",
        "def use():\n    from house.one import A",
        "if TYPE_CHECKING:\n    from house.one import A",
        "class B:\n    def use(self):\n        if TYPE_CHECKING:\n            from .one import A",
    ],
)
def test_a_circle_is_seen_wherever_it_is_written(back: str) -> None:
    there = {"house/one.py": "from house.two import B", "house/two.py": "B = 1"}
    there["house/__init__.py"] = "from house.one import A"
    sources = {path: ast.parse(text) for path, text in there.items()}
    assert circle(graph_of(sources)) == []
    assert way(graph_of(sources), "house.two", "house.one") == []
    sources["house/two.py"] = ast.parse(back)
    assert set(circle(graph_of(sources))) == {"house.one", "house.two"}
    assert way(graph_of(sources), "house.two", "house.one") == ["house.two", "house.one"]
