"""Doors that are written from the trio classes: current, and stale when a class changes."""

from __future__ import annotations

import ast

import pytest

from tools import doors
from tools.door_bodies import Door
from tools.doors import DOORS, FACES, ROOT, Writer, docstring, main, snake


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_door_is_what_the_classes_say(door: Door) -> None:
    path = ROOT / door.package.replace(".", "/") / "calls.py"
    assert Writer(door).write() == path.read_text("utf-8"), "run python -m tools.doors"


def test_a_door_that_is_stale_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doors, "ROOT", tmp_path)
    monkeypatch.setattr(Writer, "write", lambda _: "")
    assert main(["--check"]) == 1
    assert "peermesh/aio/calls.py" in capsys.readouterr().out
    for door in DOORS:
        (tmp_path / door.package.replace(".", "/")).mkdir(parents=True)
    assert main([]) == 0
    assert main(["--check"]) == 0


@pytest.mark.parametrize("face", FACES.values(), ids=lambda face: face.name)
def test_the_table_names_what_is_there(face: doors.Face) -> None:
    """An exception for a method that is gone would hide that its successor has none."""
    path, name = face.source.split(":")
    node = doors.module_of(path).class_of(name)
    there = {getattr(each, "name", "") for each in node.body}
    named = face.hand | face.here | face.local | face.asks | face.copied
    assert named | {method for method, _ in face.at_once} <= there


def test_words_are_kept_as_they_are() -> None:
    source = 'class Two:\n    """One line.\n\n    And ``more``.\n    """\n'
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    assert docstring(node, 1) == source.split("\n", 1)[1].rstrip("\n")
    assert snake("ReplicaStore") == "replica_store"
