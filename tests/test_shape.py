"""The shape of the code, checked like any other property of it.

Sizes are shown and not judged, by ``python -m tests.shape``. What is checked here has no number:
cores do not wait, tests do not sleep, nothing is left over, every silenced tool has a reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from configparser import ConfigParser

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

SLEEP = re.compile(r"\bsleep\(")

LEFTOVERS = re.compile(r"\b(?:FIXME|TODO|XXX|HACK)\b|\bbreakpoint\(|\bset_trace\(")
# Modules that do such things are forbidden to cores by .importlinter; these need no such import.
CALLS_BANNED_IN_CORES = {"open", "print", "input", "now", "utcnow", "today", "uuid1", "uuid4"}
MOCK_LIBRARIES = {"mock", "unittest.mock", "pytest_mock"}

_WAITS = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)


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


def offers(module: ast.Module) -> bool:
    """Tell whether a package has ``__all__``."""
    targets = [
        name for node in module.body if isinstance(node, ast.Assign) for name in node.targets
    ]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


@pytest.mark.parametrize("path", INITS)
def test_a_package_says_what_it_offers(path):
    imports = [name for name in imported_modules(tree(path)) if not name.startswith("__future__")]
    assert not imports or offers(tree(path)), "it imports, but has no __all__"


@pytest.mark.parametrize("path", MODULES)
def test_a_module_says_what_it_is_for(path):
    assert ast.get_docstring(tree(path)), "the first line of a module says its one purpose"


@pytest.mark.parametrize("path", [path for path in MODULES if is_core(path)])
def test_a_core_neither_waits_nor_reaches_out(path):
    waits = [node.lineno for node in ast.walk(tree(path)) if isinstance(node, _WAITS)]
    assert not waits, "awaits belong into a driver"
    calls = [call for call in called_names(tree(path)) if call[0] in CALLS_BANNED_IN_CORES]
    assert not calls, "time, ids and randomness are arguments of a core"


@pytest.mark.parametrize("path", [path for path in EVERYTHING if path != "tests/test_shape.py"])
def test_nothing_is_left_over(path):
    lines = enumerate(source(path).splitlines(), start=1)
    assert not [number for number, line in lines if LEFTOVERS.search(line)]


@pytest.mark.parametrize("path", EVERYTHING)
def test_whoever_silences_a_tool_says_why(path):
    lines = source(path).splitlines()
    silent = [
        number
        for number, reason in suppressions(source(path))
        if len(reason) < REASON_SIZE_MIN and not lines[number - 2].strip().startswith("#")
    ]
    assert not silent, "say why in the same comment, or in one on the line above"


@pytest.mark.parametrize("path", TESTS)
def test_tests_wait_for_truths_and_fake_nothing(path):
    sleeps = [line for name, line in called_names(tree(path)) if name == "sleep"]
    sleeps += [line for line in embedded_sleeps(tree(path)) if path != "tests/test_shape.py"]
    assert not sleeps, f"sleeps in lines {sleeps}: wait for a truth, or own the clock (elapse)"
    assert not MOCK_LIBRARIES & set(imported_modules(tree(path))), "doubles are product code here"


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
