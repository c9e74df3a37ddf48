"""Doors that are written from the trio classes: current, and stale when a class changes."""

from __future__ import annotations

import ast

import pytest

from tools import doors
from tools.door_faces import PARTS, Face, Part
from tools.door_source import ROOT, docstring, found_at, snake
from tools.doors import DOORS, Writer, main, modules


def test_what_is_written_is_what_the_classes_say() -> None:
    for file, text in modules():
        assert text == (ROOT / file).read_text("utf-8"), "run python -m tools.doors"


def test_a_door_that_is_stale_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [file for part in PARTS for _, file in part.modules]
    monkeypatch.setattr(doors, "ROOT", tmp_path)
    monkeypatch.setattr(doors, "with_names", lambda package, _: package)
    monkeypatch.setattr(Writer, "write", lambda _: "")
    assert main(["--check"]) == 1
    told = capsys.readouterr().out
    assert all(file in told for file in [*files, "peermesh/aio/typed.py"])
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    assert main([]) == 0
    assert main(["--check"]) == 0


FACES = [
    pytest.param(face, id=f"{part.modules[0][1]} {face.name}")
    for part in PARTS
    for face in part.faces
]


@pytest.mark.parametrize("face", FACES)
def test_the_table_names_what_is_there(face: Face) -> None:
    """An exception for a method that is gone would hide that its successor has none."""
    module, name = found_at(face.source)
    node = module.class_of(name)
    there = {getattr(each, "name", "") for each in node.body}
    named = face.hand | face.here | face.local | face.asks | face.copied
    if face.is_alone:  # They may be those of a base, or of the standard library's.
        named -= {"close", "aclose", "__aenter__", "__aexit__"}
    assert named | {method for method, _ in face.at_once} <= there
    fields = {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
    assert face.written <= face.fields <= fields


def test_what_is_shown_beside_the_classes_is_there_when_the_module_runs() -> None:
    part = Part((), (Face("wire/scalars.py:Port"),), shown=("wire.scalars:Count",))
    text = Writer(DOORS["blocking"], part).write()
    assert '__all__ = ["Count", "Port"]' in text
    assert "from wire.scalars import Count" in text.partition("if TYPE_CHECKING")[0]


def test_words_are_kept_as_they_are() -> None:
    source = 'class Two:\n    """One line.\n\n    And ``more``.\n    """\n'
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    assert docstring(node, 1) == source.split("\n", 1)[1].rstrip("\n")
    assert snake("ReplicaStore") == "replica_store"
