"""The core and the model anew, with some rules of the core switched off in its source."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from types import ModuleType

from tests.safeguards.safeguard import ROOT, Safeguard, Stale

ROOMS = ("stores.group", "tests.stores.group")
KEPT = (__name__, "tests.stores.group.conftest")


def load(name: str, changes: Sequence[Safeguard]) -> ModuleType:
    """Import a module of the model over a core without these safeguards.

    What was imported before stays as it is, for all who have it.
    """
    with _set_aside(), _changed(changes):
        return import_module(name)


class _Changed(MetaPathFinder, SourceLoader):
    """Finds the modules whose source is changed, and only these."""

    def __init__(self, changes: Sequence[Safeguard]) -> None:
        self._sources: dict[str, str] = {}
        for change in changes:
            name = change.file.removesuffix(".py").replace("/", ".")
            source = self._sources.get(name) or (ROOT / change.file).read_text("utf-8")
            if source.count(change.text) != 1:
                raise Stale(f"{change.name}: {change.text!r} is not in {change.file} once")
            self._sources[name] = source.replace(change.text, change.replacement)

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in self._sources:
            return None
        return ModuleSpec(fullname, self, origin=f"<{fullname} changed>")

    def get_filename(self, fullname: str) -> str:
        return f"<{fullname} changed>"

    def get_data(self, path: str) -> bytes:
        raise OSError(path)

    def get_source(self, fullname: str) -> str:
        return self._sources[fullname]

    def get_code(self, fullname: str):
        return compile(self._sources[fullname], self.get_filename(fullname), "exec")


@contextmanager
def _changed(changes: Sequence[Safeguard]) -> Iterator[None]:
    finder = _Changed(changes)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def _set_aside() -> Iterator[None]:
    """Have imports begin anew meanwhile, and find afterwards what was there."""

    def names() -> list[str]:
        return [
            name
            for name in sys.modules
            if name.startswith(tuple(f"{room}." for room in ROOMS)) and name not in KEPT
        ]

    before = {name: sys.modules.pop(name) for name in names()}
    try:
        yield
    finally:
        for name in names():
            del sys.modules[name]
        sys.modules.update(before)
        for name, module in before.items():
            parent, _, own = name.rpartition(".")
            setattr(sys.modules[parent], own, module)  # An import names it there, too.
