"""What the wheel is made of: sources in which what names a moved package moved, and no more."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tools.relocate import HOME, MOVED, Unmovable, modules_of, relocate, write_tests, write_wheel

ROOT = Path(__file__).parent.parent.parent
MODULES = {"wire", "wire.values", "stores", "stores.log", "stores.log.judge", "endpoint.mesh.core"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import wire", "from peermesh._mesh import wire"),
        ("import wire as w", "from peermesh._mesh import wire as w"),
        ("import wire.values as v", "from peermesh._mesh.wire import values as v"),
        ("from wire import values", "from peermesh._mesh.wire import values"),
        ("from wire.a import (\n    Set)", "from peermesh._mesh.wire.a import (\n    Set)"),
        ("from \\\n  wire import x", "from \\\n  peermesh._mesh.wire import x"),
        ("if 1:\n    import stores; pass", "if 1:\n    from peermesh._mesh import stores; pass"),
        ("x = 'é'; import wire", "x = 'é'; from peermesh._mesh import wire"),
        ("x='a\x0cb\u2028c'\nimport wire", "x='a\x0cb\u2028c'\nfrom peermesh._mesh import wire"),
        ("HOMES = {'Set': 'wire.values'}", "HOMES = {'Set': 'peermesh._mesh.wire.values'}"),
        ('x = r"stores.log.judge"', 'x = r"peermesh._mesh.stores.log.judge"'),
        ("x = 'wire.values:Set'", "x = 'peermesh._mesh.wire.values:Set'"),
    ],
)  # fmt: skip
def test_what_names_a_module_moves(before, after):
    assert relocate(before, MODULES) == after


@pytest.mark.parametrize(
    "text",
    [
        "x = 'wire'",
        "x = {'stores': 1}",
        "x = 'wire.nothing'",
        "x = 'see wire.values'",
        "x = 'wire.values.Set'",
        "x = f'{y} of wire.values'",
        "import wires, channels_of_others",
        "from .wire import values",
        "from peermesh.wire import values",
        "from mine import wire, stores",
        "wire.values = stores.log",
        "# from wire import values",
        "'''Reads ``wire.values``; from wire import values.'''",
    ],
)
def test_what_names_no_module_stays(text):
    assert relocate(text, MODULES) == text


@pytest.mark.parametrize(
    "text",
    [
        "import wire.values",
        "import os, wire",
        "import wire, os as o",
        "import \\\n  wire",
        "from wire . values import Set",
        "x = 'wire.' 'values'",
        "x = 'wire\\x2evalues'",
        "x = f'stores.{name}'",
        "x = f'stores.log.{name}'",
        "x = 'stores.' + name",
    ],
)
def test_what_would_mean_another_thing_is_refused_with_file_and_line(text):
    with pytest.raises(Unmovable, match=r"^a/b\.py:3: "):
        relocate(f"one = 1\n\n{text}\n", MODULES, "a/b.py")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("patch('stores.log.judge.MAX', 4)", "patch('peermesh._mesh.stores.log.judge.MAX', 4)"),
        ("patch('wire.values.Set.get', 4)", "patch('peermesh._mesh.wire.values.Set.get', 4)"),
        ("P = '''\nfrom wire import x\n'''", "P = '''\nfrom peermesh._mesh.wire import x\n'''"),
        ("P = '''\nimport wire\n'''", "P = '''\nfrom peermesh._mesh import wire\n'''"),
        ("P = 'x=1; import wire; x'", "P = 'x=1; from peermesh._mesh import wire; x'"),
        ("P = f'from wire import {x}'", "P = f'from peermesh._mesh.wire import {x}'"),
        ("P = 'it came from wire or not'", "P = 'it came from wire or not'"),
        ("P = 'from peermesh import wire'", "P = 'from peermesh import wire'"),
    ],
)
def test_a_test_may_name_modules_in_programs_and_with_attributes(before, after):
    assert relocate(before, MODULES, is_test=True) == after


NAMES = st.sampled_from([*MOVED, "wires", "mine", "peermesh"])
DOTTED = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
LINES = st.one_of(
    st.builds("from {} import {}".format, DOTTED, NAMES),
    st.builds("import {} as {}".format, DOTTED, NAMES),
    st.builds("x = {!r}".format, DOTTED),
    st.builds("x = {!r}".format, st.text(max_size=8)),
)


@given(lines=st.lists(LINES), modules=st.sets(DOTTED))
def test_lines_keep_their_numbers_and_the_rest_of_the_program_its_meaning(lines, modules):
    text = "\n".join(lines)
    moved = relocate(text, modules)
    assert moved.count("\n") == text.count("\n")
    for line, now in zip(lines, moved.split("\n") if lines else [], strict=True):
        is_import = line.startswith(("import", "from"))
        name = line.split()[1] if is_import else ast.literal_eval(line.partition("= ")[2])
        is_ours = name.partition(".")[0] in MOVED
        if is_import:
            assert (HOME in now) == is_ours
            assert (now == line) or is_ours
        elif is_ours and "." in name and name in modules:
            assert now == f"x = '{HOME}.{name}'"
        else:
            assert now == line


@given(text=st.lists(LINES).map("\n".join), modules=st.sets(DOTTED))
def test_what_was_moved_is_not_moved_again(text, modules):
    once = relocate(text, modules)
    assert relocate(once, modules) == once


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """What the build hook puts into the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    write_wheel(ROOT, folder)
    return folder


def test_all_of_the_tree_moves_below_one_name(wheel):
    assert [path.name for path in wheel.iterdir()] == ["peermesh"]
    assert [path.parent.name for path in wheel.rglob("py.typed")] == ["peermesh"]
    home = wheel.joinpath(*HOME.split("."))
    moved = {".".join(path.relative_to(home).with_suffix("").parts) for path in home.rglob("*.py")}
    assert {name.removesuffix(".__init__") for name in moved} - {"__init__"} == modules_of(ROOT)
    for path in wheel.rglob("*.py"):
        assert imported_from(path).isdisjoint(MOVED), path


def test_a_traceback_out_of_the_wheel_has_the_lines_of_the_checkout(wheel):
    home = wheel.joinpath(*HOME.split("."))
    for package in MOVED:
        for path in (ROOT / package).rglob("*.py"):
            there = home / path.relative_to(ROOT)
            assert there.read_bytes().count(b"\n") == path.read_bytes().count(b"\n"), path


def imported_from(path):
    """Give the top-level packages that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).partition(".")[0])
    return found


def test_tests_move_with_what_they_test(tmp_path):
    write_tests(ROOT, tmp_path)
    assert (tmp_path / "tests" / "wire" / "golden.json").is_file()
    for path in tmp_path.rglob("*.py"):
        assert imported_from(path).isdisjoint(MOVED), path
