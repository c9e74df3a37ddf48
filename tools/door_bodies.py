"""What the generated methods of each door do: how it gets to trio, and what comes back."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, Self

LOOP: Final = frozenset({"__aiter__", "__anext__"})


class Description(Protocol):
    """What a door has to know of a class; see ``tools.doors.Face``."""

    @property
    def here(self) -> frozenset[str]:
        """Methods that run in the caller's own task."""

    @property
    def local(self) -> frozenset[str]:
        """Methods that answer from any thread."""

    @property
    def asks(self) -> frozenset[str]:
        """Methods that ask for a mutation."""

    @property
    def copied(self) -> frozenset[str]:
        """Methods whose bodies are the same."""

    @property
    def at_once(self) -> tuple[tuple[str, str], ...]:
        """Methods that wait for nothing while something is true."""

    @property
    def first(self) -> tuple[tuple[str, str], ...]:
        """Methods before which something is tried that does not wait."""

    @property
    def over(self) -> frozenset[str]:
        """Properties that only the thread of trio may look at."""


def returned(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Give the annotation of what a function returns."""
    return ast.unparse(node.returns) if node.returns else "None"


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Write the signature of a function."""
    return f"{node.name}({ast.unparse(node.args)}) -> {returned(node)}"


@dataclass(frozen=True)
class Method:
    """A method of a trio class."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    overloads: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]
    is_property: bool
    is_async: bool
    """Whether it may wait in trio."""
    was: str
    """What it is called in trio."""
    attaches: str | None = None
    """The class of the handle that it attaches, where that is not in its annotation."""

    @classmethod
    def of(
        cls,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        overloads: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...],
        *,
        is_property: bool,
    ) -> Self:
        """Describe one as it stands in trio's class."""
        is_async = isinstance(node, ast.AsyncFunctionDef)
        return cls(node, overloads, is_property, is_async, node.name)

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name

    @property
    def is_barrier(self) -> bool:
        """Whether it waits for an outcome, or has a callback told of it."""
        return bool(self.overloads)

    @property
    def returned(self) -> str:
        """The annotation of what it returns."""
        return returned(self.node)

    def signature(self) -> str:
        """Write its signature."""
        return signature(self.node)

    def passed(self) -> list[str]:
        """Give its arguments as they are passed on."""
        given = self.node.args
        parts = [each.arg for each in (*given.posonlyargs, *given.args) if each.arg != "self"]
        parts += [f"*{given.vararg.arg}"] if given.vararg else []
        parts += [f"{each.arg}={each.arg}" for each in given.kwonlyargs]
        parts += [f"**{given.kwarg.arg}"] if given.kwarg else []
        return parts

    def head(self, word: str) -> list[str]:
        """Write the lines of it that stand before its body."""
        lines = ["    @property"] if self.is_property else []
        for each in self.overloads:
            lines += ["    @overload", f"    {word} {signature(each)}: ..."]
        return [*lines, f"    {word} {signature(self.node)}:", self.docstring()]

    def called(self, own: str) -> str:
        """Write a call of it."""
        return f"{own}.{self.name}({', '.join(self.passed())})"

    def handed(self, own: str) -> str:
        """Write the arguments that have something else call it."""
        return ", ".join([f"{own}.{self.name}", *self.passed()])

    def tried(self, face: Description, own: str) -> list[str]:
        """Write what is tried before it waits."""
        for name, attempt in face.first:
            if name == self.name:
                return [
                    'arguments.seconds("timeout", timeout)',
                    f"if (found := {own}.{attempt}()) is not None:",
                    "    return found",
                ]
        return []

    def handed_lists(self, own: str) -> str:
        """Do as ``handed``, with lists for what is iterated: in the thread of the caller."""
        given = self.node.args
        kinds = {
            each.arg: ast.unparse(each.annotation)
            for each in (*given.args, *given.kwonlyargs)
            if each.annotation
        }
        parts = []
        for part in self.passed():
            name = part.rpartition("=")[2]
            parts.append(part.removesuffix(name) + _listed(name, kinds.get(name, "")))
        return ", ".join([f"{own}.{self.name}", *parts])

    def copied(self) -> list[str]:
        """Give the lines of its body, without the docstring."""
        return "\n".join(map(ast.unparse, self.node.body[1:])).splitlines()

    def barrier(self, own: str) -> list[str]:
        """Write how it waits, as ``how``, and what waits, as ``wait``."""
        default = ast.unparse(next(each for each in self.node.args.kw_defaults if each is not None))
        first = [each.arg for each in self.node.args.args if each.arg != "self"]
        passed = ", ".join([f"{own}.{self.name}", *first])
        return [
            f'how = barrier("{self.name}", positional, timeout, callback, {default})',
            f"wait = partial({passed}, timeout=how.seconds, callback=how.callback)",
        ]

    def docstring(self) -> str:
        """Give its docstring, as its first statement is written."""
        text = ast.get_docstring(self.node) or ""
        lines = [f"        {line}" if line else "" for line in text.splitlines()]
        lines += ["        "] if len(lines) > 1 else []
        return '        """' + "\n".join(lines).lstrip() + '"""'


class Door(Protocol):
    """A way into the mesh from a world that is not trio's."""

    name: ClassVar[str]
    package: ClassVar[str]
    purpose: ClassVar[str]
    """The first sentence of its module."""
    passage: ClassVar[str]
    """The module of its ``Passage``."""
    bases: ClassVar[dict[str, str]]
    """What stands in the place of a base of the description."""
    whole: ClassVar[frozenset[str]]
    """Classes whose constructors are written by hand."""
    manager: ClassVar[tuple[str, str]]
    """What makes a context manager of a generator, and the words before it."""

    def way(self, core: str) -> str:
        """Write how a handle reaches the passage that front ends use."""

    def translated(self, method: Method) -> Method:
        """Give a method in the colours of the door."""

    def method(
        self, face: Description, method: Method, core: str, faces: Collection[str]
    ) -> list[str]:
        """Write a method."""

    def needs(self, face: Description, method: Method, faces: Collection[str]) -> Iterator[str]:
        """Give the imports that its body needs."""


def wrapped(method: Method, faces: Collection[str]) -> str | None:
    """Give the class of the handle that a method returns, if it does."""
    return method.returned if method.returned in faces else None


def hosted(
    door: Door, manager: str, takes: Collection[str]
) -> tuple[list[str], str, tuple[str, ...]]:
    """Write how a context manager of trio's is used over there, as ``found``.

    Gives the type of a generator that does so, too, and the imports that it needs.
    """
    decorator, word = door.manager
    start, iterator = ("async with", "AsyncIterator") if "async" in word else ("with", "Iterator")
    passage = "" if takes else "standing() as passage, "
    lines = [f"{start} {passage}passage.hosted({manager}) as found:"]
    return lines, iterator, (f"from contextlib import {decorator}",)


def attached(method: Method) -> str | None:
    """Give the class of the handle that a method attaches, if it does."""
    if not method.returned.startswith("Attaching["):
        return None
    return method.returned.removeprefix("Attaching[").removesuffix("]")


class Aio(Door):
    """asyncio: the same colours. The trio run has the same thread."""

    name: ClassVar[str] = "aio"
    package: ClassVar[str] = "peermesh.aio"
    purpose: ClassVar[str] = "The asyncio API."
    passage: ClassVar[str] = "peermesh.aio.passage"
    bases: ClassVar[dict[str, str]] = {}
    whole: ClassVar[frozenset[str]] = frozenset({"Endpoint"})
    manager: ClassVar[tuple[str, str]] = ("asynccontextmanager", "async def")

    def way(self, core: str) -> str:
        """Write how a handle reaches the passage that front ends use."""
        return "self._passage"

    def translated(self, method: Method) -> Method:
        """Give it as it is."""
        return method

    def method(
        self, face: Description, method: Method, core: str, faces: Collection[str]
    ) -> list[str]:
        """Write a method."""
        lines = method.head("async def" if method.is_async else "def")
        return lines + [f"        {line}" for line in self._body(face, method, core, faces)]

    def _body(
        self, face: Description, method: Method, core: str, faces: Collection[str]
    ) -> list[str]:
        own = f"self.{core}"
        if method.name in face.copied:
            return method.copied()
        if method.name == "__repr__":
            return [f"return repr({own})"]
        if method.is_property:
            found = f"{own}.{method.name}"
            made = wrapped(method, faces)
            return [f"return {found if made is None else f'{made}(self._passage, {found})'}"]
        if method.name in face.asks:
            return self._ask(method, own)
        if method.is_barrier:
            return [*method.barrier(own), "return await self._passage.wait(how, wait)"]
        if method.name == "close":
            way = "await self._passage.end" if method.is_async else "self._passage.close"
            return [f"{way}({own}.close)"]
        if method.is_async:
            return self._wait(face, method, own)
        return self._look(face, method, own, faces)

    @staticmethod
    def _ask(method: Method, own: str) -> list[str]:
        return [
            f"core = {own}",
            "while core.is_due:",
            "    await self._passage.rest(core)",
            "try:",
            f"    return await {method.called('core')}",
            "except StoreClosed as error:",
            "    raise self._passage.better(error) from error.__cause__",
        ]

    @staticmethod
    def _wait(face: Description, method: Method, own: str) -> list[str]:
        lines = []
        for name, condition in face.at_once:
            if name == method.name:
                lines = [f"if {own}.{condition}:", f"    return await {method.called(own)}"]
        lines += method.tried(face, own)
        if method.name in face.here:
            return [*lines, f"return await {method.called(own)}"]
        return [*lines, f"return await self._passage.call({method.handed(own)})"]

    @staticmethod
    def _look(face: Description, method: Method, own: str, faces: Collection[str]) -> list[str]:
        if method.name in face.local:
            return [f"return {method.called(own)}"]
        look = f"self._passage.look({method.handed(own)})"
        if (made := attached(method)) is not None:
            attach = f"partial(self._passage.attach, {made}, core)"
            return [f"core = {look}", f"return Attaching({attach})"]
        if (made := wrapped(method, faces)) is not None:
            return [f"return {made}(self._passage, {look})"]
        return [f"return {look}"]

    def needs(self, face: Description, method: Method, faces: Collection[str]) -> Iterator[str]:
        """Give the imports that its body needs."""
        if method.tried(face, ""):
            yield "from endpoint import arguments"
        if method.name in face.asks:
            yield "from wire.errors import StoreClosed"
        if method.is_barrier:
            yield "from endpoint.barriers import barrier"
        if method.is_barrier or attached(method) is not None:
            yield "from functools import partial"
        if attached(method) is not None:
            yield "from endpoint.replicas.attaching import Attaching"


def _listed(name: str, kind: str) -> str:
    """Write an argument of a kind; what may be left away may be a mistaken text, too."""
    if not kind.startswith("Iterable["):
        return name
    if kind.endswith("] | None"):
        return f"{name} if {name} is None or isinstance({name}, str | bytes) else list({name})"
    return f"list({name})" if kind.endswith("]") else name
