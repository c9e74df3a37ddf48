"""What a machine lacks for network namespaces, in a sentence: worlds are skipped with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

TUN: Final = Path("/dev/net/tun")

PROBE_NAME: Final = "peermesh-probe-{}"
"""A namespace that is made and removed, to see whether one can be."""


@cache
def probe() -> str | None:
    """Say what keeps namespaces from working here; ``None`` if nothing does."""
    if sys.platform != "linux":
        return "network namespaces are a thing of Linux"
    if os.geteuid() != 0:
        return "network namespaces need root: run the tests with sudo"
    if shutil.which("ip") is None:
        return "the program ip is missing: install iproute2"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{TUN} is missing: load the kernel module tun, or give the device to the container"
    return _trial()


def _trial() -> str | None:
    """Make a namespace: containers often let root do everything but that."""
    name = PROBE_NAME.format(os.getpid())
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no namespace can be made here ({made.stderr.strip()}): run without a container"
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None
