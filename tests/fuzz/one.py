"""Fuzz one target, with libFuzzer's own options: ``python -m tests.fuzz.one NAME OPTIONS``.

libFuzzer calls its program again to merge: ``FUZZ_PROGRAM`` names an executable that runs this.
"""

from __future__ import annotations

import os
import sys

import atheris

with atheris.instrument_imports(
    include=["wire", "handshake", "net", "channels", "stores", "endpoint", "peermesh"]
):
    from tests.fuzz.known import TARGETS

if __name__ == "__main__":
    atheris.Setup(
        [os.environ.get("FUZZ_PROGRAM", sys.argv[0]), *sys.argv[2:]], TARGETS[sys.argv[1]].check
    )
    atheris.Fuzz()
