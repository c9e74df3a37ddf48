"""Makes modules from their names: ``package.module:Class``, and the arguments it takes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from peermesh.brokers.modules.errors import InvalidArgument


def make(path: str, arguments: Mapping[str, object]) -> Any:  # noqa: ANN401 - any class of the user's
    """Call ``package.module:Class`` with keyword arguments; raises ``InvalidArgument``."""
    name, colon, attribute = path.partition(":")
    if not (name and colon and attribute):
        raise InvalidArgument(f"{path!r} names no module: write package.module:Class")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # As with "python -m": what the user wrote lies here.
    try:
        factory = getattr(import_module(name), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(f"{path} cannot be imported: {error}") from error
    if not callable(factory):
        raise InvalidArgument(f"{path} is no class: name one, or a function that makes a module")
    try:
        return factory(**arguments)
    except TypeError as error:
        raise InvalidArgument(f"{path} does not take its arguments: {error}") from error
