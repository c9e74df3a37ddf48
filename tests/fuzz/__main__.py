"""``python -m tests.fuzz``: throw bytes at every decoder, guided by coverage (atheris).

Inputs that reach something new join the corpus in the repository if ``--keep`` is given. An input
that makes a decoder misbehave is written to the current folder; put it into the corpus together
with the mending, so that it is replayed ever after.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.known import INPUT_SIZE_MAX, TARGETS, read_corpus, write_corpus

ROOT = Path(__file__).parent.parent.parent
MEMORY_MAX_MIB = 512
"""Far above what any input of this size may need."""


def fuzz(name: str, seconds: int, *, is_kept: bool) -> int:
    """Fuzz one target in a process of its own; give its exit code."""
    with TemporaryDirectory(prefix="fuzz-") as folder:
        found, known = Path(folder) / "found", Path(folder) / "known"
        for path in (found, known):
            path.mkdir()
        for number, data in enumerate([*TARGETS[name].seeds(), *read_corpus(name)]):
            (known / str(number)).write_bytes(data)
        options = [f"-max_total_time={seconds}", f"-max_len={INPUT_SIZE_MAX}"]
        options += [f"-rss_limit_mb={MEMORY_MAX_MIB}", f"-artifact_prefix={name}-"]
        code = _run(name, [*options, "-print_final_stats=1", str(found), str(known)])
        if code == 0 and is_kept:
            _keep(name, [found, known], Path(folder))
        return code


def _run(name: str, options: list[str], program: Path | None = None) -> int:
    command = [sys.executable, "-m", "tests.fuzz.one", name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    if program is not None:
        program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
        program.chmod(0o700)
        environment["FUZZ_PROGRAM"] = str(program)
    return subprocess.run([*command, *options], env=environment, check=False).returncode


def _keep(name: str, sources: list[Path], folder: Path) -> None:
    """Choose the inputs that reach everything, and as many of them as there is room for."""
    merged = folder / "merged"
    merged.mkdir()
    options = ["-merge=1", f"-max_len={INPUT_SIZE_MAX}", str(merged), *map(str, sources)]
    _run(name, options, folder / "program")
    write_corpus(name, (path.read_bytes() for path in merged.iterdir()))


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all if none")
    parser.add_argument("--seconds", type=int, default=300, help="for all targets together")
    parser.add_argument("--keep", action="store_true", help="renew the corpus in the repository")
    options = parser.parse_args()
    names = options.targets or list(TARGETS)
    unknown = sorted(set(names) - set(TARGETS))
    if unknown:
        parser.error(f"there is no target {unknown[0]}; there are {', '.join(TARGETS)}")
    if importlib.util.find_spec("atheris") is None:
        print("this needs atheris: pip install 'peermesh[fuzz]' (Python 3.11 to 3.13)")
        return 3
    seconds = max(1, options.seconds // len(names))
    codes = {name: fuzz(name, seconds, is_kept=options.keep) for name in names}
    bad = [name for name, code in codes.items() if code]
    print(f"misbehaved: {', '.join(bad)}" if bad else f"{len(codes)} targets behaved")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
