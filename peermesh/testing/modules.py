"""A module broker for one test: what a module raises fails the test, instead of being logged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from peermesh.brokers.modules import Failure, ModuleBroker


class ModuleFailed(Exception):  # a fact about the modules under test
    """A module raised. What it raised is the cause."""


@contextmanager
def open_module_broker() -> Iterator[ModuleBroker]:
    """Give a broker that is released with the block; raises ``ModuleFailed`` then."""
    failures: list[Failure] = []
    with ModuleBroker(on_failure=failures.append) as broker:
        yield broker
    if failures:
        first = failures[0]
        raise ModuleFailed(f"module {first.module}: {first.method}() raised") from first.error
