"""``python -m tools.wheel_test``: build the sdist, the wheel from it, install that, and use it.

The wheel lies in a virtual environment of its own, below a temporary folder, beside Django Channels
(whose package is called ``channels``) and a program with modules ``endpoint``, ``wire`` and
``stores`` of its own. There a mesh is run, and then the project's tests, relocated as the wheel is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from email import message_from_bytes
from pathlib import Path
from typing import Final

from tools.relocate import FACE, write_tests

ROOT: Final = Path(__file__).resolve().parent.parent

LAYERS: Final = (
    *(
        "tests/wire/test_framing.py",
        "tests/handshake/test_machine.py",
        "tests/net/test_acceptor.py",
    ),
    *("tests/handshake/test_credentials.py", "tests/channels/test_consumer.py"),
    *(
        "tests/channels/test_producer.py",
        "tests/stores/table/test_pins.py",
        "tests/endpoint/pubsub",
    ),
)
"""Some tests of each layer. What moving can break is what names a module, and shows in any of them:
models and long stories of cores prove nothing here that they do not prove in the checkout."""

DOORS: Final = (
    "tests/peermesh/test_blocking.py",
    "tests/peermesh/test_doors.py",
    "tests/peermesh/test_names.py",
    "tests/peermesh/compat",
    "tests/peermesh/test_seed_recipes.py",
    "tests/peermesh/spark/test_delivery.py",
)

OF_THE_CHECKOUT: Final = (
    *("tests/audit", "tests/benchmarks", "tests/fuzz", "tests/mutation"),
    *("tests/safeguards", "tests/secrecy"),
    *("tests/sources", "tests/style", "tests/tools"),
    *("tests/test_changes.py", "tests/test_docs.py", "tests/test_generated_docs.py"),
    *("tests/test_imports.py", "tests/test_shape.py", "tests/test_time_net.py"),
    *("tests/endpoint/link/test_exploration.py", "tests/endpoint/test_shielding.py"),
    *("tests/net/test_lockout.py", "tests/net/test_proofs.py"),
    *(
        "tests/peermesh/brokers/modules/test_gateway.py",
        "tests/peermesh/brokers/modules/test_requirements.py",
    ),
    *("tests/peermesh/test_heard_topics.py", "tests/peermesh/test_stranger.py"),
    "tests/peermesh/testing/test_fault_table.py",
    "tests/peermesh/testing/test_plugin_documents.py",
    *("tests/stores/group/test_group_command.py", "tests/stores/group/test_group_rules_off.py"),
)
"""Tests that read files of the repository, or use its benchmarks: they stay with it."""

NEIGHBOUR: Final = "channels"
"""Django Channels, which had our name first."""

CLAIMED: Final = ("endpoint.py", "wire.py", "stores/__init__.py")
"""What the user's own program has beside it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all of it, and say how long each step took."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheel_test", description=__doc__)
    parser.add_argument("--all", action="store_true", help="run all tests of the package")
    parser.add_argument("--wheel", type=Path, help="test this wheel, and build none")
    parser.add_argument("-n", dest="workers", default="2", help="so many workers of pytest-xdist")
    parser.add_argument("tests", nargs="*", help="run these instead, such as tests/wire")
    told = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="peermesh-wheel-test-") as folder:
        steps = _Steps(Path(folder))
        steps.build(told.wheel)
        steps.install("cli,http,websocket,test" + ",clients,spark,zookeeper" * told.all)
        steps.use()
        without_java = ["-m", "not spark and not zookeeper and not long", *LAYERS, *DOORS]
        chosen = told.tests or (["tests"] if told.all else without_java)
        return steps.test(chosen, told.workers)


class _Steps:
    """The steps, each of which needs the one before."""

    def __init__(self, folder: Path) -> None:
        """Do everything in a folder that is removed afterwards."""
        self._folder = folder
        self._wheel = folder / "none.whl"
        self._python = folder / "venv" / "bin" / "python"
        self._begun = time.monotonic()
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PEERMESH_") and name not in {"PYTHONPATH", "VIRTUAL_ENV", "CI"}
        }
        """Not even CI: properties are tried as long as they are in the checkout there, not here."""

    def build(self, wheel: Path | None) -> None:
        """Build the sdist from the checkout, and the wheel from the sdist, unless there is one."""
        if wheel is None:
            dist = self._folder / "dist"
            build = (sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT))
            self._run(*build, is_quiet=True)
            (wheel,) = dist.glob("*.whl")
        self._wheel = wheel.resolve()
        with zipfile.ZipFile(self._wheel) as archive:
            check_wheel(archive)
        self._say(f"{self._wheel.name} occupies {FACE} alone")

    def install(self, extras: str) -> None:
        """Install the wheel beside Django Channels."""
        self._run(sys.executable, "-m", "venv", str(self._folder / "venv"))
        pip = (str(self._python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
        self._run(*pip, f"{self._wheel}[{extras}]", NEIGHBOUR, "pytest-xdist>=3.7")
        self._say(f"installed {FACE}[{extras}] beside Django Channels")

    def use(self) -> None:
        """Run a program that has modules of the same names, with a mesh of each colour."""
        user = self._folder / "user"
        for name in CLAIMED:
            path = user / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('"""The user\'s own."""\n\nOWNER = "user"\n', "utf-8")
        shutil.copy(Path(__file__).with_name("wheel_app.py"), user / "app.py")
        self._run(str(self._python), "app.py", cwd=user)
        checker = (sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull)
        self._run(*checker, "--python-executable", str(self._python), "app.py", cwd=user)
        self._say("ran a mesh in a program with an endpoint.py, a wire.py and stores/ of its own")

    def test(self, chosen: Sequence[str], workers: str) -> int:
        """Run the relocated tests; give pytest's exit code."""
        moved = self._folder / "relocated"
        write_tests(ROOT, moved)
        (moved / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
        command = (str(self._python), "-m", "pytest", "-q", "-n", workers, "--dist", "loadfile")
        ignored = (f"--ignore={path}" for path in OF_THE_CHECKOUT)
        done = subprocess.run(
            [*command, *ignored, *chosen], cwd=moved, env=self._environment, check=False
        )
        self._say("ran the relocated tests")
        return done.returncode

    def _run(self, *command: str, cwd: Path | None = None, is_quiet: bool = False) -> None:
        """Run a command that has to succeed, outside the checkout; show what a failed one said."""
        done = subprocess.run(
            command,
            cwd=cwd or self._folder,
            env=self._environment,
            stdout=subprocess.PIPE if is_quiet else None,
            stderr=subprocess.STDOUT if is_quiet else None,
            check=False,
        )
        if done.returncode:
            sys.stdout.write((done.stdout or b"").decode(errors="replace"))
            raise SystemExit(f"failed: {' '.join(command)}")

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._begun:4.0f} s  {what}", flush=True)


def check_wheel(archive: zipfile.ZipFile) -> None:
    """Raise ``SystemExit`` unless the wheel occupies one name, and says who made it."""
    tops = {name.partition("/")[0] for name in archive.namelist()}
    info = next(iter(tops - {FACE}), "")
    if tops != {FACE, info} or not (info.startswith(f"{FACE}-") and info.endswith(".dist-info")):
        raise SystemExit(f"the wheel occupies {', '.join(sorted(tops))}")
    entries = archive.read(f"{info}/entry_points.txt").decode().splitlines()
    homes = [line.partition("=")[2].strip() for line in entries if "=" in line]
    if not all(home.startswith(f"{FACE}.") for home in homes):
        raise SystemExit(f"the entry points name {', '.join(homes)}")
    metadata = message_from_bytes(archive.read(f"{info}/METADATA"))
    lacking = [
        field
        for field in ("Author", "Keywords", "License-Expression", "Project-URL", "Requires-Python")
        if not metadata[field]
    ]
    if lacking:
        raise SystemExit(f"the metadata lack {', '.join(lacking)}")


if __name__ == "__main__":
    sys.exit(main())
