"""Which functions have mutants, and how one of these takes its function's place.

The files that mutmut writes register their functions as they are imported. A mutant lends its code
to the function, so that all who have the function have the mutant, and other calls cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TypeVar

MutantDict = dict[str, FunctionType]
"""The original and all mutants of one function, by the names that mutmut gave them."""

Function = TypeVar("Function", bound=Callable[..., object])

_registered: list[tuple[FunctionType, MutantDict]] = []


def register(mutants: MutantDict, **_: bool) -> Callable[[Function], Function]:
    """Remember a function, and where its mutants will be: they come later in the file."""

    def keep(function: Function) -> Function:
        assert isinstance(function, FunctionType)
        _registered.append((function, mutants))
        return function

    return keep


def functions() -> dict[str, FunctionType]:
    """Give the function of each mutant that was imported."""
    return {
        f"{function.__module__}.{name}": function
        for function, mutants in _registered
        for name in mutants
    }


def replace(name: str) -> None:
    """Have the mutant of that name in its function's place, for the rest of this process."""
    module, _, own = name.rpartition(".")
    (function, mutant) = next(
        (function, mutants[own])
        for function, mutants in _registered
        if function.__module__ == module and own in mutants
    )
    code = getattr(mutant, "__func__", mutant)  # of a class method
    function.__code__ = code.__code__
    function.__defaults__ = code.__defaults__
    function.__kwdefaults__ = code.__kwdefaults__


class Watch:
    """Sees which functions are called, in any thread: the first call after each look costs more."""

    def __init__(self) -> None:
        """Have each function report its first call."""
        self._seen: set[FunctionType] = set()
        self._originals = {function: function.__code__ for function, _ in _registered}
        self._reports = {function: self._report_of(function) for function in self._originals}
        for function, report in self._reports.items():
            function.__code__ = report

    def look(self) -> set[FunctionType]:
        """Give the functions that were called since the last look."""
        seen, self._seen = self._seen, set()
        for function in seen:
            function.__code__ = self._reports[function]
        return seen

    def _report_of(self, function: FunctionType) -> CodeType:
        def call(*args: object, **kwargs: object) -> object:
            function.__code__ = self._originals[function]
            self._seen.add(function)
            return function(*args, **kwargs)

        def report(*args: object, **kwargs: object) -> object:
            return "call".__call__(*args, **kwargs)

        code = report.__code__
        constants = tuple(call if each == "call" else each for each in code.co_consts)
        free = function.__code__.co_freevars  # A code has those of the one in whose place it is.
        return code.replace(co_consts=constants, co_freevars=free)
