"""Pytest in a project of the plugin's users."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from peermesh.testing.time_limits import limit

Pytest = Callable[..., str]


@pytest.fixture
def user_pytest(tmp_path) -> Pytest:
    """Run pytest over the text of a test module, strictly; gives what it wrote."""

    def run(text: str, *arguments: str, ini: str = "") -> str:
        (tmp_path / "test_it.py").write_text(text)
        (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers\n{ini}")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "peermesh.testing.plugin", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=limit(100),
            check=False,
        )
        return done.stdout + done.stderr

    return run
