"""What ``tools.doors`` has written says what trio's says: each class and function of each door."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from tools.door_faces import PARTS, Face, Opening, Part

OTHERWISE = {
    "blocking": ((r"Attaching\[(\w+)\]", r"\1"), (r"\bAsyncIterator\b", "Iterator")),
    "testing": ((r"\bRemoteReceipt\b", "Receipt"),),
}
"""What is another type where calls wait in their thread, and where another process answers."""


def thing(source: str) -> Any:
    """Import what a face or an opening names."""
    path, name = source.split(":")
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return getattr(import_module(module), name)


def written(kind: str) -> Iterator[Any]:
    """Give each module of a door, with each thing that is written in it."""
    for part in PARTS:
        for door, file in part.modules:
            for each in getattr(part, kind):
                yield pytest.param(part, door, file, each, id=f"{file} {each.name}")


def signature(function: Any, door: str) -> str:
    text = str(inspect.signature(function))
    for pattern, instead in OTHERWISE.get(door, ()):
        text = re.sub(pattern, instead, text)
    return text


def by_hand(face: Face, door: str) -> frozenset[str]:
    return face.hand.union(*(names for each, names in face.by_hand if each == door))


@pytest.mark.parametrize(("part", "door", "file", "face"), tuple(written("faces")))
def test_a_class_has_the_words_and_signatures_of_trio(
    part: Part, door: str, file: str, face: Face
) -> None:
    theirs, ours = thing(face.source), thing(f"{file}:{face.name}")
    assert inspect.getdoc(ours) == inspect.getdoc(theirs)
    if face.is_alone:
        assert signature(ours, door) == signature(theirs, door)
    count = 0
    for name, described in vars(theirs).items():
        is_shown = not name.startswith("_") and name not in by_hand(face, door)
        if not is_shown or not (inspect.isfunction(described) or isinstance(described, property)):
            continue
        count += 1
        found = inspect.getattr_static(ours, name)
        assert inspect.getdoc(found) == inspect.getdoc(described), name
        assert isinstance(found, property) == isinstance(described, property), name
        if inspect.isfunction(described):
            assert signature(found, door) == signature(described, door), name
            waits = inspect.iscoroutinefunction(described) and door != "blocking"
            assert inspect.iscoroutinefunction(found) == waits, name
    assert count or face.fields or part is PARTS[0]


@pytest.mark.parametrize(("part", "door", "file", "opening"), tuple(written("opens")))
def test_a_function_has_the_words_and_the_arguments_of_trio(
    part: Part, door: str, file: str, opening: Opening
) -> None:
    theirs, ours = thing(opening.source), thing(f"{file}:{opening.name}")
    assert inspect.getdoc(ours) == inspect.getdoc(theirs)
    described, found = (inspect.signature(each).parameters for each in (theirs, ours))
    assert list(found) == list(described)
    for position, (name, given) in enumerate(described.items()):
        assert (found[name].kind, found[name].default) == (given.kind, given.default)
        if position or not opening.takes:
            assert found[name].annotation == given.annotation
