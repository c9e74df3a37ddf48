"""Which versions of which packages we stand on: the lowest that we allow, and those installed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)>=([0-9][0-9A-Za-z.]*)(,<[0-9][0-9A-Za-z.]*)?(;.*)?\Z")


class Unbounded(Exception):
    """A dependency whose lowest version is not said."""


def lowest(pyproject: Mapping[str, Any], wanted: Sequence[str] | None = None) -> dict[str, str]:
    """Give direct dependencies with the lowest version allowed: of the extras wanted, or of all."""
    project = pyproject["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    chosen = list(extras) if wanted is None else wanted
    found: dict[str, str] = {}
    for requirement in [*project["dependencies"], *chain(*(extras[name] for name in chosen))]:
        match = _REQUIREMENT.match(requirement.replace(" ", ""))
        if match is None:
            raise Unbounded(f"{requirement!r} names no lowest version: write name>=version")
        found[match[1]] = match[2]
    return found


def lowest_here(wanted: Sequence[str] | None = None) -> dict[str, str]:
    """Give those of this tree."""
    return lowest(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")), wanted)


def installed() -> dict[str, str]:
    """Give all that is installed here but ourselves: in a new environment, the newest versions."""
    found = {each.metadata["Name"]: each.version for each in distributions()}
    return {name: version for name, version in found.items() if name != "peermesh"}


def text(versions: Mapping[str, str]) -> str:
    """Write versions as pip reads them."""
    return "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))


def names(versions: Iterable[str]) -> str:
    """Write names for a person."""
    return ", ".join(sorted(versions))
