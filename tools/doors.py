"""Writes the doors that are not trio's from the classes of trio's API, which describe them.

``python -m tools.doors`` writes ``peermesh/DOOR/calls.py`` for each door, the doors of gateways and
brokers, and from ``peermesh.names`` the imports that type checkers read. With ``--check`` it only
says which of them are not what they should be. Read are colour, signature, annotations and
docstring of each public method. What cannot be read there is in ``tools.door_faces``: which methods
are written by hand, and which run where.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from peermesh import names
from tools.door_blocking import Blocking
from tools.door_bodies import Aio, Door, Method, hosted
from tools.door_faces import FACES, PARTS, Face, Opening, Part
from tools.door_source import (
    ROOT,
    constructor,
    docstring,
    fields,
    imported,
    methods,
    module_of,
    names_in,
    snake,
)
from tools.door_testing import Harness

DOORS: Final[dict[str, Door]] = {door.name: door for door in (Aio(), Blocking(), Harness())}

IMPORTS: Final = re.compile(r"(?<=^if TYPE_CHECKING:\n).*?(?=^\S)", re.M | re.S)
"""What type checkers read of a door, in its module."""


def setter(field: Method, core: str) -> list[str]:
    """Write how a property is set; that waits for nothing, and needs no crossing."""
    name = field.name
    return [
        f"    @{name}.setter",
        f"    def {name}(self, {name}: {field.returned}) -> None:",
        f"        self.{core}.{name} = {name}",
    ]


class Writer:
    """Writes one module of a door."""

    def __init__(self, door: Door, part: Part) -> None:
        """Write this part."""
        self._door = door
        self._part = part
        self._own = {face.name: face for face in part.faces}
        self._faces = FACES | self._own
        self._passage = part.passage or (door.passage, "Passage")
        self._imports: dict[str, str] = {}
        """What the code needs: each name, and its import."""
        self._annotations: dict[str, str] = {}
        """What only its annotations need."""

    def write(self) -> str:
        """Give the text of its module."""
        bodies = [self._class(face) for face in self._part.faces]
        bodies += [self._opening(opening) for opening in self._part.opens]
        for name in self._imports:
            self._annotations.pop(name, None)
        for each in self._part.shown:
            home, name = each.split(":")
            self._annotations.pop(name, None)
            self._imports[name] = f"from {home} import {name} as {name}"
        imports = sorted(self._imports.values())
        checked = sorted(f"    {line}" for line in self._annotations.values())
        if checked:
            imports.append("from typing import TYPE_CHECKING")
        written = "Written by ``tools/doors.py``: change the trio class."
        purpose = f"{self._door.purpose} {written}"
        if self._part.purpose:
            purpose = f"{self._part.purpose}\n\n{written}\n"
        head = [
            f'"""{purpose}"""',
            "from __future__ import annotations",
            "\n".join(imports),
        ]
        if checked:
            head.append("if TYPE_CHECKING:\n" + "\n".join(checked))
        return formatted("\n\n".join([*head, *bodies]) + "\n")

    def _class(self, face: Face) -> str:
        path, name = face.source.split(":")
        module = module_of(path)
        node, origins = module.class_of(name), module.origins()
        core, attribute = f"Core{name}", f"_{snake(name)}"
        is_whole = name in self._door.whole
        if not is_whole or face.is_served:
            self._annotations[core] = f"from {module.name} import {name} as {core}"
        if not face.is_alone and not is_whole:
            home, way = self._passage
            self._imports.setdefault(way, f"from {home} import {way}")
        bases, parts = self._bases(face, node, origins)
        lines = [f"class {name}({', '.join(bases)}):" if bases else f"class {name}:"]
        lines.append(docstring(node, 1))
        if face.is_alone:
            lines += self._maker(face, node, attribute, origins)
            self._imports[core] = f"from {module.name} import {name} as {core}"
        elif not is_whole:
            lines += self._constructor(core, attribute, parts)
        hand = face.hand.union(*(each for door, each in face.by_hand if door == self._door.name))
        for described in (*fields(node, face.fields), *methods(node)):
            if described.name not in hand:
                method = self._door.translated(described)
                self._import_for(method, face, origins)
                lines += self._door.method(face, method, attribute, self._faces)
                if described.name in face.written:
                    lines += setter(method, attribute)
                for needed in self._door.needs(face, method, self._faces):
                    self._imports[needed.rpartition(" ")[2]] = needed
        if face.is_served:
            lines += [
                f"    def inside(self) -> tuple[{self._passage[1]}, {core}]:",
                '        """Give the way to what lives there, and that: for front ends."""',
                f"        return {self._door.way(attribute)}, self.{attribute}",
            ]
        return "\n".join(lines)

    def _bases(
        self, face: Face, node: ast.ClassDef, origins: dict[str, tuple[str, str]]
    ) -> tuple[list[str], list[str]]:
        """Give the bases of a class, and those of them that have constructors."""
        parts = []
        for door, base in face.bases:
            if door == self._door.name:
                home, name = base.split(":")
                self._imports[name] = f"from {home} import {name}"
                parts.append(name)
        described = [ast.unparse(each) for each in node.bases]
        others = [each for each in described if each not in self._own and not parts]
        replaced = [self._door.bases.get(each, each) for each in others]
        for each, name in zip(others, replaced, strict=True):
            self._imports[name] = f"from {origins[each][0]} import {name}"
        parts += [each for each in described if each in self._own]
        return parts + replaced, parts

    def _constructor(self, core: str, attribute: str, parts: Sequence[str]) -> list[str]:
        calls = [f"        {part}.__init__(self, passage, core)" for part in parts]
        return [
            f"    def __init__(self, passage: {self._passage[1]}, core: {core}) -> None:",
            '        """Lead to ``core``; for the endpoint, which makes its handles."""',
            *(calls or ["        self._passage = passage"]),
            f"        self.{attribute} = core",
        ]

    def _maker(
        self, face: Face, node: ast.ClassDef, attribute: str, origins: dict[str, tuple[str, str]]
    ) -> list[str]:
        """Write the constructor of what users make themselves."""
        made = Method.of(constructor(node), (), is_property=False)
        self._import_for(made, face, origins)
        given = ", ".join(made.passed())
        return [
            *made.head("def"),
            f"        self._passage, self.{attribute} = self._stand(Core{node.name}({given}))",
        ]

    def _opening(self, opening: Opening) -> str:
        """Write a function that gives a context manager."""
        path, name = opening.source.split(":")
        module = module_of(path)
        origins = module.origins()
        described = self._door.translated(
            Method.of(module.function_of(name), (), is_property=False)
        )
        node = described.node
        given = described.passed()
        if opening.takes:
            first = node.args.args[0]
            first.annotation = ast.parse(" | ".join(opening.takes), mode="eval").body
            for each in opening.takes:
                self._import_face(each, self._imports)
            given[0] = "core"
            self._imports["check_handle"] = "from peermesh.doors.handles import check_handle"
        else:
            self._imports["standing"] = "from peermesh.blocking.standing import standing"
        core = f"core_{name}"
        self._imports[core] = f"from {module.name} import {name} as {core}"
        result = node.returns.slice if isinstance(node.returns, ast.Subscript) else None
        assert result is not None, "it says what it gives"
        made = ast.unparse(result)
        lines, iterator, imports = hosted(self._door, f"{core}({', '.join(given)})", opening.takes)
        node.returns = ast.parse(f"{iterator}[{made}]", mode="eval").body
        self._import_for(described, None, origins)
        self._annotations[iterator] = f"from collections.abc import {iterator}"
        for line in imports:
            self._imports[line.rpartition(" ")[2]] = line
        found = f"{made}(passage, found)" if made in self._faces else "found"
        if opening.takes:
            handle = node.args.args[0].arg
            kinds = ", ".join(opening.takes)
            lines = [
                f'check_handle("{handle}", {handle}, {kinds})',
                f"passage, core = {handle}.inside()",
                *lines,
            ]
        decorator, word = self._door.manager
        return "\n".join(
            [
                f"@{decorator}",
                f"{word} {described.signature()}:",
                docstring(node, 1),
                *(f"    {line}" for line in lines),
                f"        yield {found}",
            ]
        )

    def _import_for(
        self, method: Method, face: Face | None, origins: dict[str, tuple[str, str]]
    ) -> None:
        """Import what the signature of a method names, and the body of one that is copied."""
        arguments = method.node.args
        defaults = [each for each in (*arguments.defaults, *arguments.kw_defaults) if each]
        bodies = method.node.body if face is not None and method.was in face.copied else []
        wanted = {"overload"} if method.overloads else set()
        for name in names_in([*defaults, *bodies]) | wanted:
            if name in self._faces:
                self._import_face(name, self._imports)
            elif name in origins:
                self._imports[name] = imported(name, origins[name])
        signatures = [method.node, *method.overloads]
        origins = {**origins, "Iterator": ("collections.abc", "Iterator")}
        for name in {one for each in signatures for one in names_in([each.args, each.returns])}:
            if name in self._faces:
                self._import_face(name, self._annotations)
            elif name in origins:
                self._annotations.setdefault(name, imported(name, origins[name]))

    def _import_face(self, name: str, imports: dict[str, str]) -> None:
        """Import a class of this door that is in another module of it."""
        if name not in self._own:
            imports.setdefault(name, f"from {self._door.package}.calls import {name}")


def formatted(text: str) -> str:
    """Give a module as the project's formatter has it, with its imports in order."""
    for command in (("check", "--select", "I", "--fix", "--quiet"), ("format", "--quiet")):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", "peermesh/calls.py", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


def with_names(file: str, homes: Mapping[str, str]) -> str:
    """Give the module of a door with the imports that type checkers read of it."""
    lines = [f"    from {home} import {name} as {name}\n" for name, home in homes.items()]
    if homes is names.TRIO:
        lines += [f"    from peermesh import {name} as {name}\n" for name in names.MODULES]
    text = (ROOT / file).read_text("utf-8")
    return formatted(IMPORTS.sub(lambda _: "".join(lines) + "\n", text))


def modules() -> Iterator[tuple[str, str]]:
    """Give all that is written here: each file, and its text."""
    for part in PARTS:
        for door, file in part.modules:
            yield file, Writer(DOORS[door], part).write()
    for folder, homes in (("", names.TRIO), ("aio/", names.AIO), ("blocking/", names.BLOCKING)):
        file = f"peermesh/{folder}__init__.py"
        yield file, with_names(file, homes)


def main(arguments: Sequence[str]) -> int:
    """Write the doors, or check them; the code is 1 if one is not current."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    stale = []
    for file, text in modules():
        path = ROOT / file
        if options.check and (not path.exists() or path.read_text("utf-8") != text):
            stale.append(path.relative_to(ROOT).as_posix())
        elif not options.check:
            path.write_text(text, "utf-8")
    if stale:
        print(f"{', '.join(stale)}: not what the trio classes say; run python -m tools.doors")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
