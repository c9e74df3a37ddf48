"""Where the browser is, for tests with one."""

from __future__ import annotations

import shutil


def find_chromium() -> str | None:
    """Give the path of Chromium; ``None`` if it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")
