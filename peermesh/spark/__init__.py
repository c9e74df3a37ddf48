"""Spark: the only package that imports pyspark, and each module of it only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peermesh.spark.source import MeshSource, register

__all__ = ["MeshSource", "register"]

_HOMES = {"MeshSource": "peermesh.spark.source", "register": "peermesh.spark.source"}


def __getattr__(name: str) -> object:
    """Import what is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
