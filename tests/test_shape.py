"""The shape of the code, checked like any other property of it.

A number is a lamp, not a judge. Where a limit and clarity disagree, the exception is written down
here by name, with the number it stands at and the reason. It is a ratchet: once the code has become
better than its exception, that has to be tightened, or to go.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("wire", "handshake", "channels", "stores", "endpoint", "peermesh")

FILE_LINES_MAX = 600
TEST_FILE_LINES_MAX = 700  # a list of attacks is read entry by entry, not held in the head
FUNCTION_LINES_MAX = 50  # code lines: docstring, comments and blanks are free
NESTING_MAX_CORE = 3
NESTING_MAX_DRIVER = 4  # nurseries and timeouts nest
PUBLIC_NAMES_MAX = 40  # of one package: more than a reader can hold, and h11 needs 23
SUPPRESSIONS_PER_1000_LINES_MAX = 6  # h11, the strictest of our models, stands at 5.8
REASON_SIZE_MIN = 8  # characters: enough for two words, too many for none


class Exceeds(NamedTuple):
    """An exception from a limit: where it stands now, and why it may."""

    value: int
    reason: str


# Keys are paths, and for functions the path, two colons and the name: "stores/table.py::apply".
LONGER_FILES: dict[str, Exceeds] = {}
LONGER_FUNCTIONS: dict[str, Exceeds] = {}
DEEPER_FUNCTIONS: dict[str, Exceeds] = {}
WIDER_PACKAGES: dict[str, Exceeds] = {}

SLEEP = re.compile(r"\bsleep\(")

LEFTOVERS = re.compile(r"\b(?:FIXME|TODO|XXX|HACK)\b|\bbreakpoint\(|\bset_trace\(")
SUPPRESSION = re.compile(
    r"#\s*(?:type:\s*ignore(?:\[[^]]*\])?|noqa(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)?"
    r"|pragma:\s*no\s*cover)(?P<rest>.*)"
)
# Modules that do such things are forbidden to cores by .importlinter; these need no such import.
CALLS_BANNED_IN_CORES = {"open", "print", "input", "now", "utcnow", "today", "uuid1", "uuid4"}
MOCK_LIBRARIES = {"mock", "unittest.mock", "pytest_mock"}

_BLOCKS = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Try,
    ast.TryStar,
    ast.With,
    ast.AsyncWith,
    ast.Match,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WAITS = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> list[str]:
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


MODULES = python_files(*PACKAGES)
TESTS = python_files("tests")
EVERYTHING = [*MODULES, *python_files("benchmarks"), *TESTS]
INITS = [module for module in MODULES if module.endswith("/__init__.py")]


@cache
def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree(path: str) -> ast.Module:
    return ast.parse(source(path))


def cores() -> tuple[str, ...]:
    """Read the pure modules and packages from the contract that keeps them so: one list."""
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    return tuple(contracts["importlinter:contract:pure"]["source_modules"].split())


def is_core(path: str) -> bool:
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return any(module == core or module.startswith(f"{core}.") for core in cores())


def functions(module: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(module) if isinstance(node, _FUNCTIONS))


def code_lines(function: Function, lines: list[str]) -> int:
    docstring: set[int] = set()
    if ast.get_docstring(function) is not None:
        first = function.body[0]
        docstring = set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    numbers = range(function.lineno, (function.end_lineno or function.lineno) + 1)
    code = (lines[number - 1].strip() for number in numbers if number not in docstring)
    return sum(1 for line in code if line and not line.startswith("#"))


def nesting(node: ast.AST, depth: int = 0) -> int:
    deepest = depth
    for child in ast.iter_child_nodes(node):
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        step = int(isinstance(child, _BLOCKS) and not is_elif)
        deepest = max(deepest, nesting(child, depth + step))
    return deepest


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


def suppressions(text: str) -> Iterator[tuple[int, str]]:
    """Give every comment that silences a tool: its line, and what follows it as a reason."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        found = SUPPRESSION.search(token.string) if token.type == tokenize.COMMENT else None
        if found:
            yield token.start[0], found["rest"].strip(" #:,-—")


def public_names(module: ast.Module) -> list[str] | None:
    """Give ``__all__``; ``None`` if the package has none."""
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return list(ast.literal_eval(node.value))
    return None


def nesting_max(path: str) -> int:
    return NESTING_MAX_CORE if is_core(path) else NESTING_MAX_DRIVER


def most(measured: Iterator[tuple[str, int]]) -> Mapping[str, int]:
    """Keep the largest number of each name: functions of one file may share theirs."""
    largest: dict[str, int] = {}
    for name, value in measured:
        largest[name] = max(value, largest.get(name, 0))
    return largest


def file_sizes() -> Iterator[tuple[str, int]]:
    return ((path, len(source(path).splitlines())) for path in EVERYTHING)


def function_sizes() -> Iterator[tuple[str, int]]:
    for path in MODULES:
        lines = source(path).splitlines()
        for function in functions(tree(path)):
            yield f"{path}::{function.name}", code_lines(function, lines)


def function_depths() -> Iterator[tuple[str, int]]:
    for path in MODULES:
        for function in functions(tree(path)):
            yield f"{path}::{function.name}", nesting(function)


def package_widths() -> Iterator[tuple[str, int]]:
    return ((path, len(public_names(tree(path)) or ())) for path in INITS)


def assert_within(
    measured: Iterator[tuple[str, int]], limits: Mapping[str, int], allowed: dict[str, Exceeds]
) -> None:
    """Compare with the limits, or with the exception that stands for just this number."""
    numbers = most(measured)
    over = {name: value for name, value in numbers.items() if value > limits[name]}
    excused = {name: exception.value for name, exception in allowed.items()}
    assert over == excused, "beyond the limit, unlike the exceptions: mend it, or tighten those"
    assert all(exception.reason for exception in allowed.values())


def same_limit(value: int, measured: Iterator[tuple[str, int]]) -> dict[str, int]:
    return {name: value for name, _ in measured}


def file_lines_max(name: str) -> int:
    return TEST_FILE_LINES_MAX if name.startswith("tests/") else FILE_LINES_MAX


def test_no_file_is_too_long():
    limits = {name: file_lines_max(name) for name, _ in file_sizes()}
    assert_within(file_sizes(), limits, LONGER_FILES)


def test_no_function_is_too_long():
    limits = same_limit(FUNCTION_LINES_MAX, function_sizes())
    assert_within(function_sizes(), limits, LONGER_FUNCTIONS)


def test_no_function_nests_too_deep():
    limits = {name: nesting_max(name.partition("::")[0]) for name, _ in function_depths()}
    assert_within(function_depths(), limits, DEEPER_FUNCTIONS)


def test_no_package_shows_too_many_names():
    assert_within(package_widths(), same_limit(PUBLIC_NAMES_MAX, package_widths()), WIDER_PACKAGES)


@pytest.mark.parametrize("path", INITS)
def test_a_package_says_what_it_offers(path):
    imports = [name for name in imported_modules(tree(path)) if not name.startswith("__future__")]
    assert not imports or public_names(tree(path)) is not None, "it imports, but has no __all__"


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


def test_tools_are_silenced_rarely():
    count = sum(1 for path in MODULES for _ in suppressions(source(path)))
    lines = sum(len(source(path).splitlines()) for path in MODULES)
    assert count * 1000 <= SUPPRESSIONS_PER_1000_LINES_MAX * lines


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
    assert public_names(ast.parse("__all__ = ['a', 'b']")) == ["a", "b"]
    assert LEFTOVERS.search("# TODO: later")


def test_the_list_of_cores_is_read():
    assert is_core("wire/framing.py")
    assert is_core("wire/__init__.py")
    assert is_core("handshake/machine.py")
    assert not is_core("handshake/credentials.py")
    assert not is_core("peermesh/__init__.py")


def test_an_exception_is_needed_and_has_to_shrink_with_the_code():
    limits = {"a": 10}
    assert_within(iter([("a", 12)]), limits, {"a": Exceeds(12, "a reason")})
    for stale in ({}, {"a": Exceeds(13, "a reason")}, {"a": Exceeds(11, "a reason")}):
        with pytest.raises(AssertionError, match="beyond the limit"):
            assert_within(iter([("a", 12)]), limits, stale)
    with pytest.raises(AssertionError, match="beyond the limit"):
        assert_within(iter([("a", 10)]), limits, {"a": Exceeds(12, "a reason")})
