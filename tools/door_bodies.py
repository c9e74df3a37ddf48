"""What the generated methods of a door do: how it gets to trio, and what comes back."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from typing import ClassVar

from tools.door_faces import Face
from tools.door_source import Method


class Door(ABC):
    """A way into the mesh from a world that is not trio's."""

    name: ClassVar[str]
    package: ClassVar[str]
    purpose: ClassVar[str]
    """The first sentence of its module."""
    passage: ClassVar[str] = ""
    """The module of its ``Passage``; without one, constructors are written by hand."""
    bases: ClassVar[dict[str, str]] = {}
    """What stands in the place of a base of the description."""
    helpers: ClassVar[tuple[str, ...]]
    """Imports of what bodies may use."""
    is_async: ClassVar[bool] = True
    """Whether what waits is a coroutine."""

    def way(self, own: str) -> str:
        """Write how a handle reaches the passage that front ends use."""
        return "self._passage"

    def translated(self, method: Method) -> Method:
        """Give a method in the colours of the door."""
        return method

    def copied(self, face: Face) -> frozenset[str]:
        """Name the methods whose bodies are trio's, or nearly, so that they need its names."""
        return face.copied

    def method(self, face: Face, method: Method, own: str, made: str | None) -> list[str]:
        """Write a method. ``own`` is what it stands for, ``made`` the handle that it returns."""
        word = "async def" if self.is_async and method.is_async else "def"
        body = self.body(face, method, own, made)
        return [*method.head(word), *(f"        {line}" for line in body)]

    def body(self, face: Face, method: Method, own: str, made: str | None) -> list[str]:
        """Write what it does."""
        wait = "await " if self.is_async and method.is_async else ""
        if method.was in face.copied:
            return method.copied()
        if method.name == "__repr__":
            return [f"return {self.shown(own)}"]
        if method.is_property:
            look = f"{own}.{method.name}"
            found = self.looked(look) if method.name in face.over else look
            return [f"return {self.given(found, own, made)}"]
        if method.name in face.asks:
            return self.asked(method, own)
        if method.is_barrier:
            return [*_barrier(method, own), f"return {wait}self._passage.wait(how, wait)"]
        if method.name == "close":
            return [f"{wait}self._passage.{'end' if method.is_async else 'close'}({own}.close)"]
        return self.crossed(face, method, own, made)

    def given(self, found: str, own: str, made: str | None) -> str:
        """Write what is returned: something found there, or a handle of it."""
        return found if made is None else f"{made}({self.way(own)}, {found})"

    def shown(self, own: str) -> str:
        """Write the repr of a handle."""
        return f"repr({own})"

    def looked(self, look: str) -> str:
        """Write how a property is looked at that belongs to the thread of trio."""
        return look

    @abstractmethod
    def asked(self, method: Method, own: str) -> list[str]:
        """Write how a mutation is asked for."""

    @abstractmethod
    def crossed(self, face: Face, method: Method, own: str, made: str | None) -> list[str]:
        """Write a call that goes over to trio."""


def tried(face: Face, method: Method, own: str) -> list[str]:
    """Write what is tried before it waits."""
    attempt = dict(face.first).get(method.name)
    if attempt is None:
        return []
    return [
        'arguments.seconds("timeout", timeout)',
        f"if (found := {own}.{attempt}()) is not None:",
        "    return found",
    ]


def _barrier(method: Method, own: str) -> list[str]:
    """Write how it waits, as ``how``, and what waits, as ``wait``."""
    given = method.node.args
    default = ast.unparse(next(each for each in given.kw_defaults if each is not None))
    passed = ", ".join([f"{own}.{method.name}", *(each.arg for each in given.args[1:])])
    return [
        f'how = barrier("{method.name}", positional, timeout, callback, {default})',
        f"wait = partial({passed}, timeout=how.seconds, callback=how.callback)",
    ]


class _Taking(ast.NodeTransformer):
    """Takes what trio's method takes, from ``core``; only the waiting is done in the room."""

    def visit_Await(self, node: ast.Await) -> ast.AST:
        match node.value:
            case ast.Call(ast.Attribute(ast.Name("self"), "await_ready"), given):
                way = ast.parse("self._passage.await_ready(core)", mode="eval").body
                assert isinstance(way, ast.Call)
                way.args += [self.visit(each) for each in given]
                return ast.Await(way)
            case _:
                raise ValueError(f"{ast.unparse(node)}: it takes, and waits for something else")

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("core") if node.id == "self" else node


def _taking(method: Method, own: str) -> list[str]:
    """Write a method that waits, and then takes: no other task, nor a cancellation, comes between.

    Cancelled before, it has taken nothing.
    """
    body = [ast.unparse(_Taking().visit(each)) for each in method.node.body[1:]]
    return [f"core = {own}", *"\n".join(body).splitlines()]


class Aio(Door):
    """asyncio: the same colours. The trio run has the same thread."""

    name: ClassVar[str] = "aio"
    package: ClassVar[str] = "peermesh.aio"
    purpose: ClassVar[str] = "The asyncio API."
    passage: ClassVar[str] = "peermesh.aio.passage"
    helpers: ClassVar[tuple[str, ...]] = (
        "from endpoint import arguments",
        "from endpoint.barriers import barrier",
        "from endpoint.replicas.attaching import Attaching",
        "from functools import partial",
        "from wire.errors import StoreClosed",
    )

    def copied(self, face: Face) -> frozenset[str]:
        """Name the methods whose bodies are trio's, or nearly, so that they need its names."""
        return face.copied | face.taking

    def asked(self, method: Method, own: str) -> list[str]:
        """Write how a mutation is asked for: in the task itself, once it is due."""
        return [
            f"core = {own}",
            "while core.is_due:",
            "    await self._passage.rest(core)",
            "try:",
            f"    return await {method.called('core')}",
            "except StoreClosed as error:",
            "    raise self._passage.better(error) from error.__cause__",
        ]

    def crossed(self, face: Face, method: Method, own: str, made: str | None) -> list[str]:
        """Write a call: one that waits goes into the room."""
        call = method.called(own)
        if not method.is_async:
            return self._look(face, method, own, made)
        lines = tried(face, method, own)
        if method.name in face.taking:
            return [*lines, *_taking(method, own)]
        if condition := dict(face.at_once).get(method.name):
            lines = [f"if {own}.{condition}:", f"    return await {call}"]
        found = call if method.name in face.here else f"self._passage.call({method.handed(own)})"
        return [*lines, f"return await {found}"]

    def _look(self, face: Face, method: Method, own: str, made: str | None) -> list[str]:
        if method.name in face.local:
            return [f"return {method.called(own)}"]
        look = f"self._passage.look({method.handed(own)})"
        if method.attaches is not None:
            attach = f"partial(self._passage.attach, {method.attaches}, core)"
            return [f"core = {look}", f"return Attaching({attach})"]
        return [f"return {self.given(look, own, made)}"]
