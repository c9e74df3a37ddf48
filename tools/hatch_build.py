"""The build hook: the wheel has one top-level package, in which the layers of the mesh lie.

An editable install has the checkout's own packages, and the sdist is the plain tree.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a build has not the tree's root

from tools.relocate import FACE, write_wheel


class RelocatingHook(BuildHookInterface[Any]):
    """Puts the relocated tree into the wheel in the place of the checkout's packages."""

    _folder: TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Relocate everything, before the wheel is filled."""
        if version == "editable":
            return
        self._folder = TemporaryDirectory(prefix="peermesh-wheel-")
        write_wheel(Path(self.root), Path(self._folder.name))
        build_data["force_include"][str(Path(self._folder.name, FACE))] = FACE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel was filled from."""
        if self._folder is not None:
            self._folder.cleanup()
