"""The shape of the code, checked like any other property of it.

Sizes are shown and not judged, by ``python -m tests.shape``. What is checked here has no number:
cores do not wait, tests do not sleep, nothing is left over, every silenced tool has a reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from configparser import ConfigParser
from functools import cache

import pytest

from tests.shape import (
    EVERYTHING,
    INITS,
    MEASURES,
    MODULES,
    PACKAGES,
    ROOT,
    TESTS,
    code_lines,
    functions,
    nesting,
    source,
    suppressions,
    tree,
)

REASON_SIZE_MIN = 8  # characters: enough for two words, too many for none

OWN = "tests/test_shape.py"
"""It names what it forbids."""

SLEEP = re.compile(r"\bsleep\(")

LEFTOVERS = re.compile(r"\b(?:FIXME|TODO|XXX|HACK)\b|\bbreakpoint\(|\bset_trace\(")
# Modules that do such things are forbidden to cores by .importlinter; these need no such import.
CALLS_BANNED_IN_CORES = {"open", "print", "input", "now", "utcnow", "today", "uuid1", "uuid4"}
MOCK_LIBRARIES = {"mock", "unittest.mock", "pytest_mock"}

FORMER_WORDS = re.compile(r"(?i)vigil|gauge|scrutiny|(?:^|_)bells?(?:$|_)|(?-i:Bells?(?![a-z]))")
"""What flow control called its parts once: the field says liveness, rate, authorisation, wakeup."""

_WAITS = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)


@cache
def cores() -> tuple[str, ...]:
    """Read the pure modules and packages from the contract that keeps them so: one list."""
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    return tuple(contracts["importlinter:contract:pure"]["source_modules"].split())


def is_core(path: str) -> bool:
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return any(module == core or module.startswith(f"{core}.") for core in cores())


def called_names(module: ast.AST) -> Iterator[tuple[str, int]]:
    """Give the last part of every called name, with its line."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id, node.lineno
            elif isinstance(node.func, ast.Attribute):
                yield node.func.attr, node.lineno


def embedded_sleeps(module: ast.AST) -> Iterator[int]:
    """Give the lines of texts that sleep: programs that a test runs."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and SLEEP.search(str(node.value)):
            yield node.lineno


def imported_modules(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def defined_names(path: str) -> Iterator[str]:
    """Give the parts of a module's path, and the names of its classes and functions."""
    yield from path.removesuffix(".py").split("/")
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name


def offers(module: ast.Module) -> bool:
    """Tell whether a package has ``__all__``."""
    targets = [
        name for node in module.body if isinstance(node, ast.Assign) for name in node.targets
    ]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def lines_of(paths: Iterable[str], search: Callable[[str], Iterable[int]]) -> dict[str, list[int]]:
    """Give the lines that a search finds, by file: those files alone that have some."""
    found = {path: sorted(set(search(path))) for path in paths}
    return {path: lines for path, lines in found.items() if lines}


def test_a_package_says_what_it_offers():
    def imports(path: str) -> bool:
        return any(not name.startswith("__future__") for name in imported_modules(tree(path)))

    silent = [path for path in INITS if imports(path) and not offers(tree(path))]
    assert not silent, "they import, but have no __all__"


def test_a_module_says_what_it_is_for():
    silent = [path for path in MODULES if not ast.get_docstring(tree(path))]
    assert not silent, "the first line of a module says its one purpose"


def test_a_core_neither_waits_nor_reaches_out():
    def waits(path: str) -> Iterator[int]:
        return (node.lineno for node in ast.walk(tree(path)) if isinstance(node, _WAITS))

    def calls(path: str) -> Iterator[int]:
        return (line for name, line in called_names(tree(path)) if name in CALLS_BANNED_IN_CORES)

    found = [path for path in MODULES if is_core(path)]
    assert lines_of(found, waits) == {}, "awaits belong into a driver"
    assert lines_of(found, calls) == {}, "time, ids and randomness are arguments of a core"


def test_nothing_is_left_over():
    def leftovers(path: str) -> Iterator[int]:
        lines = enumerate(source(path).splitlines(), start=1)
        return (number for number, line in lines if LEFTOVERS.search(line))

    assert lines_of((path for path in EVERYTHING if path != OWN), leftovers) == {}


def test_names_are_the_words_of_the_field():
    names = {name: path for path in EVERYTHING for name in defined_names(path)}
    found = {name: path for name, path in names.items() if FORMER_WORDS.search(name)}
    assert found == {}, "docs/glossary.md has the field's words"


def test_whoever_silences_a_tool_says_why():
    def silent(path: str) -> Iterator[int]:
        lines = source(path).splitlines()
        for number, reason in suppressions(source(path)):
            if len(reason) < REASON_SIZE_MIN and not lines[number - 2].strip().startswith("#"):
                yield number

    found = lines_of(EVERYTHING, silent)
    assert found == {}, "say why in the same comment, or in one on the line above"


def test_tests_wait_for_truths_and_fake_nothing():
    def sleeps(path: str) -> Iterator[int]:
        yield from (line for name, line in called_names(tree(path)) if name == "sleep")
        if path != OWN:
            yield from embedded_sleeps(tree(path))

    assert lines_of(TESTS, sleeps) == {}, "wait for a truth, or own the clock (elapse)"
    fakes = [path for path in TESTS if MOCK_LIBRARIES & set(imported_modules(tree(path)))]
    assert not fakes, "doubles are product code here"


def test_every_package_is_typed_and_known():
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    assert contracts["importlinter"]["root_packages"].split() == list(PACKAGES)


# The measures themselves, on a sample of which we know the numbers.

SAMPLE = '''
def sample(items):
    """Two lines,

    and neither of them counts."""
    # Nor does this.
    for item in items:
        if item:
            pass
        elif items:
            with item:
                pass

async def waits():
    await clock.sleep(1)  # noqa: E501
    uuid.uuid4()  # type: ignore[attr] - the sample has no import
'''


def test_the_measures_measure():
    module, lines = ast.parse(SAMPLE), SAMPLE.splitlines()
    first, second = functions(module)
    assert code_lines(first, lines) == 7
    assert nesting(first) == 3
    assert nesting(second) == 0
    assert sum(isinstance(node, _WAITS) for node in ast.walk(module)) == 2
    assert {name for name, _ in called_names(module)} == {"sleep", "uuid4"}
    assert [reason for _, reason in suppressions(SAMPLE)] == ["", "the sample has no import"]
    assert set(imported_modules(ast.parse("from unittest import mock"))) & MOCK_LIBRARIES
    assert offers(ast.parse("__all__ = ['a', 'b']"))
    assert not offers(ast.parse("from a import b"))
    assert LEFTOVERS.search("# TODO: later")
    assert all(map(FORMER_WORDS.search, ("Bell", "HostBell", "wake_bell", "is_vigilant", "Gauge")))
    assert not any(map(FORMER_WORDS.search, ("Wakeup", "label", "rebellion", "Belligerent")))


def test_the_list_of_cores_is_read():
    assert is_core("wire/framing.py")
    assert is_core("wire/__init__.py")
    assert is_core("handshake/machine.py")
    assert not is_core("handshake/credentials.py")
    assert not is_core("peermesh/__init__.py")


@pytest.mark.parametrize("name", MEASURES)
def test_a_lamp_shines(name):
    """Nothing judges the numbers; but there are some."""
    assert max(MEASURES[name]())[0] > 0
