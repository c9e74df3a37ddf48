"""``python -m tools.pythons``: run the tests of all doors on newer Pythons, where they are there.

Each has an environment of its own, such as ``.venv-3.13``, which is made once. Without a Python of
some version on the path the code is 1, and the text says which is missing.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

VERSIONS: Final = ("3.12", "3.13")
"""Those that the package is for, and that the CI does not run."""

EXTRAS: Final = "cli,http,websocket,clients,test,hosts"

TESTS: Final = (
    "tests/peermesh/aio",
    "tests/peermesh/doors",
    "tests/peermesh/test_doors.py",
    "tests/peermesh/test_cycles.py",
)


def interpreter(version: str) -> str | None:
    """Find a Python of a version that runs; a shim of pyenv may be there without one."""
    found = shutil.which(f"python{version}")
    if found is None:
        return None
    told = subprocess.run(
        [found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found if told.stdout.strip() == version else None


def prepare(version: str, python: str) -> Path:
    """Make the environment of a version unless it is there; give its Python."""
    folder = ROOT / f".venv-{version}"
    ready, inside = folder / ".ready", folder / "bin" / "python"
    if not ready.exists() or ready.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        print(f"Setting up {folder.name}, which takes some minutes, once", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        options = ("--quiet", "--disable-pip-version-check", "--editable", f".[{EXTRAS}]")
        subprocess.run([inside, "-m", "pip", "install", *options], cwd=ROOT, check=True)
        ready.touch()
    return inside


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them on each version, and say what came of it; 0 if all ran and passed."""
    parser = argparse.ArgumentParser(prog="python -m tools.pythons", description=__doc__)
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="such as 3.13")
    told = parser.parse_args(arguments)
    results = {}
    for version in told.versions:
        python = interpreter(version)
        if python is None:
            results[version] = f"missing: install python{version}, or put it on the PATH"
            continue
        inside = prepare(version, python)
        done = subprocess.run([inside, "-m", "pytest", "-q", *TESTS], cwd=ROOT, check=False)
        results[version] = "passed" if done.returncode == 0 else "failed"
    print(*(f"Python {version}: {result}" for version, result in results.items()), sep="\n")
    return int(any(result != "passed" for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
