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
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from peermesh import names
from tools.door_blocking import Blocking
from tools.door_bodies import Aio, Door
from tools.door_faces import FACES, PARTS, Face, Opening, Part
from tools.door_source import (
    ROOT,
    Method,
    Module,
    constructor,
    docstring,
    fields,
    found_at,
    methods,
    names_in,
    signature,
    snake,
)
from tools.door_testing import Harness

DOORS: Final[dict[str, Door]] = {door.name: door for door in (Aio(), Blocking(), Harness())}

HOMES: Final = {"aio": names.AIO, "blocking": names.BLOCKING}
"""Where the public names of a door are."""

FORMATTING: Final = (
    ("check", "--select", "F401,I,TC001,TC002,TC003", "--fix", "--unsafe-fixes", "--quiet"),
    ("format", "--quiet"),
)
"""How a module is finished: imports that nothing needs go, and those that only annotations need
are for type checkers alone."""


class Writer:
    """Writes one module of a door."""

    def __init__(self, door: Door, part: Part) -> None:
        """Write this part."""
        self._door = door
        self._part = part
        self._own = {face.name for face in part.faces}
        self._faces = FACES.keys() | self._own
        home, self._way = part.passage or (door.passage, "Passage")
        self._imports = {*door.helpers, "from typing import overload"}
        if home:
            self._imports.add(f"from {home} import {self._way}")

    def write(self) -> str:
        """Give the text of its module."""
        bodies = [self._class(face) for face in self._part.faces]
        bodies += [self._opening(opening) for opening in self._part.opens]
        if self._part.shown:
            pairs = [each.split(":") for each in self._part.shown]
            self._imports |= {f"from {home} import {name}" for home, name in pairs}
            bodies.insert(0, f"__all__ = {sorted({*self._own, *(name for _, name in pairs)})}")
        written = "Written by ``tools/doors.py``: change the trio class."
        purpose = f"{self._door.purpose} {written}"
        if self._part.purpose:
            purpose = f"{self._part.purpose}\n\n{written}\n"
        head = [f'"""{purpose}"""', "from __future__ import annotations", *sorted(self._imports)]
        return formatted("\n".join([*head, *bodies]) + "\n")

    def _class(self, face: Face) -> str:
        module, name = found_at(face.source)
        node = module.class_of(name)
        core, own = f"Core{name}", f"self._{snake(name)}"
        self._imports.add(module.imported(name, core))
        bases, parts = self._bases(face, node, module)
        lines = [f"class {name}({', '.join(bases)}):" if bases else f"class {name}:"]
        lines.append(docstring(node, 1))
        if face.is_alone:
            made = constructor(node)
            self._import(made.annotations, module)
            stands = f"self._stand({core}({', '.join(made.passed())}))"
            lines += [*made.head("def"), f"        self._passage, {own} = {stands}"]
        elif face.is_whole:
            made = constructor(node)
            self._import(made.annotations, module)
            lines += made.head("def")
            lines.append(f"        super().__init__({core}({', '.join(made.passed())}))")
        elif self._door.passage:
            lines += self._constructor(core, own, parts)
        hand = face.hand.union(*(each for door, each in face.by_hand if door == self._door.name))
        for described in (*fields(node, face.fields), *methods(node)):
            if described.name not in hand:
                lines += self._method(face, described, own, module)
        if face.is_served:
            lines += [
                f"    def inside(self) -> tuple[{self._way}, {core}]:",
                '        """Give the way to what lives there, and that: for front ends."""',
                f"        return {self._door.way(own)}, {own}",
            ]
        return "\n".join(lines)

    def _bases(self, face: Face, node: ast.ClassDef, module: Module) -> tuple[list[str], list[str]]:
        """Give the bases of a class, and those of them that have constructors."""
        parts = []
        for door, base in face.bases:
            if door == self._door.name:
                home, name = base.split(":")
                self._imports.add(f"from {home} import {name}")
                parts.append(name)
        described = [ast.unparse(each) for each in node.bases]
        others = []
        for each in described:
            if each not in self._own and not parts:
                others.append(self._door.bases.get(each, each))
                self._imports.add(f"from {module.origins[each][0]} import {others[-1]}")
        parts += [each for each in described if each in self._own]
        return parts + others, parts

    def _constructor(self, core: str, own: str, parts: Sequence[str]) -> list[str]:
        calls = [f"        {part}.__init__(self, passage, core)" for part in parts]
        return [
            f"    def __init__(self, passage: {self._way}, core: {core}) -> None:",
            '        """Lead to ``core``; for the endpoint, which makes its handles."""',
            *(calls or ["        self._passage = passage"]),
            f"        {own} = core",
        ]

    def _method(self, face: Face, described: Method, own: str, module: Module) -> list[str]:
        method = self._door.translated(described)
        self._import(method.annotations, module)
        if method.was in self._door.copied(face):
            self._import(method.node.body, module)
        made = method.returned if method.returned in self._faces else None
        lines = self._door.method(face, method, own, made)
        return lines + method.setter(own) if described.name in face.written else lines

    def _opening(self, opening: Opening) -> str:
        """Write a function that gives a context manager: trio's is entered over there."""
        module, name = found_at(opening.source)
        described = self._door.translated(module.function_of(name))
        node, given = described.node, described.passed()
        assert isinstance(node.returns, ast.Subscript), "it says what it gives"
        made, iterator = ast.unparse(node.returns.slice), "Iterator"
        lines = ["with standing() as passage, passage.hosted({}) as found:"]
        if opening.takes:
            first = node.args.args[0]
            handle, given[0] = first.arg, "core"
            first.annotation = ast.parse(" | ".join(opening.takes), mode="eval").body
            lines = [
                f'check_handle("{handle}", {handle}, {", ".join(opening.takes)})',
                f"passage, core = {handle}.inside()",
                "with passage.hosted({}) as found:",
            ]
        word, decorator = "def", "contextmanager"
        if self._door.is_async:
            word, decorator, iterator = "async def", "asynccontextmanager", "AsyncIterator"
            lines[-1] = f"async {lines[-1]}"
        lines[-1] = lines[-1].format(f"core_{name}({', '.join(given)})")
        node.returns.value = ast.Name(iterator)
        self._import(described.annotations, module)
        self._imports |= {
            f"from contextlib import {decorator}",
            f"from collections.abc import {iterator}",
            "from peermesh.blocking.standing import standing",
            "from peermesh.doors.handles import check_handle",
            module.imported(name, f"core_{name}"),
        }
        return "\n".join(
            [
                f"@{decorator}",
                f"{word} {signature(node)}:",
                docstring(node, 1),
                *(f"    {line}" for line in lines),
                f"        yield {made}(passage, found)"
                if made in self._faces
                else "        yield found",
            ]
        )

    def _import(self, nodes: Sequence[ast.AST | None], module: Module) -> None:
        """Import what code names: a class of this door, or what trio's module has."""
        homes = HOMES.get(self._door.name, {})
        for name in names_in(nodes) - self._own:
            if name in names.COLOURED and name in homes:
                self._imports.add(f"from {homes[name]} import {name}")
            elif name in self._faces:
                self._imports.add(f"from {self._door.package}.calls import {name}")
            elif name in module.origins:
                self._imports.add(module.imported(name))


def formatted(text: str) -> str:
    """Give a module as the project's formatter has it."""
    for command in FORMATTING:
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", "peermesh/calls.py", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


def with_names(package: str, homes: Mapping[str, str]) -> str:
    """Give the module from which type checkers read the names of a package."""
    lines = [
        f'"""The names of ``{package}`` for type checkers. Written by ``tools/doors.py``."""',
        "from typing import TYPE_CHECKING",
        "if TYPE_CHECKING:",
        *(f"    from {home} import {name} as {name}" for name, home in homes.items()),
    ]
    if homes is names.TRIO:
        lines += [f"    from peermesh import {name} as {name}" for name in names.MODULES]
    return formatted("\n".join([*lines, ""]))


def modules() -> Iterator[tuple[str, str]]:
    """Give all that is written here: each file, and its text."""
    for part in PARTS:
        for door, file in part.modules:
            yield file, Writer(DOORS[door], part).write()
    for door, homes in (("", names.TRIO), (".aio", names.AIO), (".blocking", names.BLOCKING)):
        package = f"peermesh{door}"
        yield f"{package.replace('.', '/')}/typed.py", with_names(package, homes)


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
