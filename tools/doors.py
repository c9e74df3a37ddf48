"""Writes the doors that are not trio's from the classes of trio's API, which describe them.

``python -m tools.doors`` writes ``peermesh/DOOR/calls.py`` for each door, and with ``--check`` only
says which of them are not what the classes say. Read are colour, signature, annotations and
docstring of each public method. What cannot be read there is in ``FACES``: which methods are
written by hand, and which run where.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tools.door_blocking import Blocking
from tools.door_bodies import Aio, Door, Method

DOORS: Final[tuple[Door, ...]] = (Aio(), Blocking())

ROOT: Final = Path(__file__).resolve().parent.parent


def words(text: str) -> frozenset[str]:
    """Give the words of a text."""
    return frozenset(text.split())


@dataclass(frozen=True)
class Face:
    """One class of the trio API, and what cannot be read in it."""

    source: str
    """File and class."""
    hand: frozenset[str] = frozenset()
    """Written by hand in each door, or not part of it."""
    here: frozenset[str] = frozenset()
    """They wait only as the caller's own world does, so that they run there."""
    local: frozenset[str] = frozenset()
    """They answer from any thread, and after the end, too."""
    asks: frozenset[str] = frozenset()
    """They ask for a mutation, and wait before it only, if that is due."""
    copied: frozenset[str] = frozenset()
    """Their bodies are the same in all doors."""
    at_once: tuple[tuple[str, str], ...] = ()
    """They wait for nothing while something is true of their object."""
    first: tuple[tuple[str, str], ...] = ()
    """Another method is tried before them, which does not wait: it may find something."""
    over: frozenset[str] = frozenset()
    """Properties that only the thread of trio may look at."""
    by_hand: tuple[tuple[str, frozenset[str]], ...] = ()
    """What is written by hand in one door only."""
    bases: tuple[tuple[str, str], ...] = ()
    """For a door, what of it is written by hand: the class is based on it."""
    is_served: bool = False
    """Whether gateways serve it."""

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.source.partition(":")[2]


_REPLICAS: Final = "endpoint/replicas"
_LOOP: Final = words("__aiter__ __anext__")
_VERBS: Final = words(
    "erase clear increment decrement append insert_into remove_from push pop batch compare_and_set"
    " compare_and_erase"
)

FACES: Final = {
    face.name: face
    for face in (
        Face(f"{_REPLICAS}/stores/reading.py:Reader", copied=words("entries")),
        Face(
            f"{_REPLICAS}/handle.py:ReplicaHandle",
            hand=words("is_due breathe rest await_room"),
            local=words("name"),
        ),
        Face(
            f"{_REPLICAS}/stores/store_handle.py:StoreHandle",
            hand=words("ask"),
            asks=_VERBS | {"put"},
            by_hand=(("blocking", words("put_unique")),),
            bases=(("blocking", "peermesh.blocking.asking:Asking"),),
        ),
        Face(f"{_REPLICAS}/stores/observing.py:ObservedStore"),
        Face(f"{_REPLICAS}/groups/membership.py:GroupHandle"),
        Face(
            f"{_REPLICAS}/stores/session.py:Session",
            hand=words("__aenter__ __aexit__"),
            over=words("is_alive"),
            bases=(
                ("aio", "peermesh.aio.coordination:SessionBlock"),
                ("blocking", "peermesh.blocking.coordination:SessionBlock"),
            ),
        ),
        Face(f"{_REPLICAS}/stores/locks.py:Lock"),
        Face(f"{_REPLICAS}/stores/locks.py:Elections", copied=_LOOP),
        Face(f"{_REPLICAS}/stores/coordinating.py:Coordinating"),
        Face(
            f"{_REPLICAS}/stores/store.py:Store",
            local=words("is_master"),
            at_once=(("get", "runner.is_in_touch"),),
            by_hand=(("blocking", words("get")),),
            bases=(("blocking", "peermesh.blocking.asking:CopyReads"),),
            is_served=True,
        ),
        Face(f"{_REPLICAS}/stores/store_proxy.py:StoreProxy"),
        Face(
            f"{_REPLICAS}/groups/replica.py:ReplicaStore",
            at_once=(("get", "part.has_state"),),
            is_served=True,
        ),
        Face(f"{_REPLICAS}/stores/events.py:Events", hand=words("push end"), copied=_LOOP),
        Face(f"{_REPLICAS}/stores/watching.py:Watch", copied=_LOOP),
        Face(f"{_REPLICAS}/logs/log_handle.py:LogHandle"),
        Face(f"{_REPLICAS}/logs/log.py:Log", local=words("is_keeper")),
        Face(f"{_REPLICAS}/group_logs/replica.py:ReplicaLog"),
        Face(f"{_REPLICAS}/logs/log_consumer.py:LogConsumer", copied=_LOOP),
        Face(
            "endpoint/pubsub/stream.py:StatusSubscriber",
            hand=words("push end take is_readable"),
            local=words("poll available"),
            first=(("get", "take"),),
            copied=_LOOP,
            by_hand=(("blocking", words("get poll close")),),
            bases=(("blocking", "peermesh.blocking.status:StatusReading"),),
        ),
        Face(
            "endpoint/endpoint.py:Endpoint",
            hand=words("__aenter__ __aexit__ forked shutdown subscribe read_with"),
            here=words("publish_batch"),
            local=words("node_id"),
            by_hand=(
                (
                    "blocking",
                    words("publish_nowait publish_batch publisher __repr__"),
                ),
            ),
            bases=(
                ("aio", "peermesh.aio.living:Life"),
                ("blocking", "peermesh.blocking.endpoint:EndpointLife"),
            ),
        ),
    )
}


@dataclass(frozen=True)
class Module:
    """A module of the description."""

    name: str
    tree: ast.Module

    def class_of(self, name: str) -> ast.ClassDef:
        """Find a class."""
        return next(
            node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name
        )

    def origins(self) -> dict[str, tuple[str, str]]:
        """Say of each name of the module which module it is from, and what it is called there."""
        found: dict[str, tuple[str, str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    found[alias.asname or alias.name] = node.module, alias.name
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found[node.name] = self.name, node.name
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = self.name, node.target.id
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found[target.id] = self.name, target.id
        return found


@cache
def module_of(path: str) -> Module:
    """Read a module."""
    name = path.removesuffix(".py").replace("/", ".")
    return Module(name, ast.parse((ROOT / path).read_text("utf-8")))


def methods(node: ast.ClassDef) -> Iterator[Method]:
    """Give the public methods of a class, each with its overloads before it."""
    overloads: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    for each in node.body:
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        is_shown = each.name in {"__repr__", "__aenter__", "__aexit__", *_LOOP}
        if each.name.startswith("_") and not is_shown:
            continue
        decorators = {one.id for one in each.decorator_list if isinstance(one, ast.Name)}
        if "overload" in decorators:
            overloads.append(each)
        else:
            yield Method(
                each,
                tuple(overloads),
                is_property="property" in decorators,
                is_async=isinstance(each, ast.AsyncFunctionDef),
                was=each.name,
            )
            overloads = []


class Writer:
    """Writes one door."""

    def __init__(self, door: Door) -> None:
        """Write it from ``FACES``."""
        self._door = door
        self._imports: dict[str, str] = {}
        """What the code needs: each name, and its import."""
        self._annotations: dict[str, str] = {}
        """What only its annotations need."""

    def write(self) -> str:
        """Give the text of its module."""
        classes = [self._class(face) for face in FACES.values()]
        for name in self._imports:
            self._annotations.pop(name, None)
        imports = sorted(self._imports.values())
        checked = sorted(f"    {line}" for line in self._annotations.values())
        if checked:
            imports.append("from typing import TYPE_CHECKING")
        head = [
            f'"""{self._door.purpose} Written by ``tools/doors.py``: change the trio class."""',
            "from __future__ import annotations",
            "\n".join(imports),
        ]
        if checked:
            head.append("if TYPE_CHECKING:\n" + "\n".join(checked))
        return formatted("\n\n".join([*head, *classes]) + "\n")

    def _class(self, face: Face) -> str:
        path, name = face.source.split(":")
        module = module_of(path)
        node, origins = module.class_of(name), module.origins()
        core, attribute = f"Core{name}", f"_{snake(name)}"
        if name not in self._door.whole:
            self._annotations[core] = f"from {module.name} import {name} as {core}"
        self._imports.setdefault("Passage", f"from {self._door.passage} import Passage")
        bases, parts = self._bases(face, node, origins)
        lines = [f"class {name}({', '.join(bases)}):" if bases else f"class {name}:"]
        lines.append(docstring(node, 1))
        if name not in self._door.whole:
            lines += self._constructor(core, attribute, parts)
        hand = face.hand.union(*(each for door, each in face.by_hand if door == self._door.name))
        for described in methods(node):
            if described.name not in hand:
                method = self._door.translated(described)
                self._import_for(method, face, origins)
                lines += self._door.method(face, method, attribute, FACES)
                for needed in self._door.needs(face, method, FACES):
                    self._imports[needed.rpartition(" ")[2]] = needed
        if face.is_served:
            lines += [
                f"    def inside(self) -> tuple[Passage, {core}]:",
                '        """Give the way to the endpoint, and the store there: for gateways."""',
                f"        return self._passage, self.{attribute}",
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
        others = [each for each in described if each not in FACES and not parts]
        replaced = [self._door.bases.get(each, each) for each in others]
        for each, name in zip(others, replaced, strict=True):
            self._imports[name] = f"from {origins[each][0]} import {name}"
        parts += [each for each in described if each in FACES]
        return parts + replaced, parts

    @staticmethod
    def _constructor(core: str, attribute: str, parts: Sequence[str]) -> list[str]:
        calls = [f"        {part}.__init__(self, passage, core)" for part in parts]
        return [
            f"    def __init__(self, passage: Passage, core: {core}) -> None:",
            '        """Lead to ``core``; for the endpoint, which makes its handles."""',
            *(calls or ["        self._passage = passage"]),
            f"        self.{attribute} = core",
        ]

    def _import_for(self, method: Method, face: Face, origins: dict[str, tuple[str, str]]) -> None:
        """Import what the signature of a method names, and the body of one that is copied."""
        arguments = method.node.args
        defaults = [each for each in (*arguments.defaults, *arguments.kw_defaults) if each]
        bodies = method.node.body if method.was in face.copied else []
        wanted = {"overload"} if method.overloads else set()
        for name in names_in([*defaults, *bodies]) | wanted:
            if name in origins and name not in FACES:
                self._imports[name] = imported(name, origins[name])
        signatures = [method.node, *method.overloads]
        origins = {**origins, "Iterator": ("collections.abc", "Iterator")}
        for name in {one for each in signatures for one in names_in([each.args, each.returns])}:
            if name in origins and name not in FACES:
                self._annotations.setdefault(name, imported(name, origins[name]))


def imported(name: str, origin: tuple[str, str]) -> str:
    """Give the import of a name."""
    home, there = origin
    return f"from {home} import {there}" + ("" if there == name else f" as {name}")


def names_in(nodes: Sequence[ast.AST | None]) -> set[str]:
    """Give the names that code mentions, also within annotations that are text."""
    found = set()
    for node in nodes:
        for each in ast.walk(node) if node is not None else ():
            if isinstance(each, ast.Name):
                found.add(each.id)
    return found


def docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> str:
    """Give the docstring of a node as it stands in the source."""
    text = ast.get_docstring(node, clean=True) or ""
    indent = "    " * depth
    lines = [f"{indent}{line}" if line else "" for line in text.splitlines()]
    if len(lines) > 1:
        lines.append(indent)
    return f'{indent}"""{chr(10).join(lines).removeprefix(indent)}"""'


def snake(name: str) -> str:
    """Give a class's name as that of an attribute."""
    parts = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    return parts.removeprefix("_")


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


def main(arguments: Sequence[str]) -> int:
    """Write the doors, or check them; the code is 1 if one is not current."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    stale = []
    for door in DOORS:
        path = ROOT / door.package.replace(".", "/") / "calls.py"
        text = Writer(door).write()
        if options.check and (not path.exists() or path.read_text("utf-8") != text):
            stale.append(path.relative_to(ROOT).as_posix())
        elif not options.check:
            path.write_text(text, "utf-8")
    if stale:
        print(f"{', '.join(stale)}: not what the trio classes say; run python -m tools.doors")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
