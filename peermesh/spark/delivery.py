"""Makes the zip that takes the mesh to executors: ``spark-submit --py-files peermesh.zip``.

All of it is plain Python, and needs nothing installed there but what Spark's own Python sources
need, which is pyarrow. ``cbor2`` in it is our stand-in; TLS wants the compiled ``cryptography``,
and with it ``spark.archives``.

Beside each module is its bytecode for the Python that makes the zip, because Python keeps none for
modules in zips: each process of an executor would compile all of them. Another Python passes over
what is not for it, and reads the module.
"""

from __future__ import annotations

import argparse
import py_compile
import zipfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import channels
import endpoint
import handshake
import net
import peermesh
import stores
import wire

OURS: Final = sorted(
    {
        module.__name__.partition(".")[0]
        for module in (wire, handshake, net, channels, stores, endpoint, peermesh)
    }
)
"""Seven packages in a checkout; the wheel has but one, which holds the other six."""

PACKAGES: Final = (
    *OURS,
    *("trio", "attr", "attrs", "idna", "outcome", "sniffio", "sortedcontainers"),
)
"""What a leaf of the mesh imports: ours, trio, and what trio needs."""

SUPERFLUOUS: Final = ("peermesh/testing/", "peermesh/demo/", "peermesh/brokers/", "trio/_tests/")
STAND_IN: Final = "peermesh/spark/plain_cbor.py"
OLDEST: Final = (1980, 1, 1, 0, 0, 0)
"""A date for all files, so that equal trees give equal zips."""


def build(target: Path) -> None:
    """Write the zip; raises ``ModuleNotFoundError`` for a package that is not here."""
    with (
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive,
        TemporaryDirectory() as folder,
    ):
        for name, path in sorted(_files()):
            for each in [name, "cbor2.py"] if name == STAND_IN else [name]:
                compiled = _compile(each, path, Path(folder))
                archive.writestr(zipfile.ZipInfo(each, OLDEST), path.read_bytes())
                archive.writestr(zipfile.ZipInfo(f"{each}c", OLDEST), compiled)


def _compile(name: str, path: Path, folder: Path) -> bytes:
    """Give the bytecode of a module, which holds without a look at the module's date."""
    result = folder / "compiled.pyc"
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(path), str(result), name, doraise=True, invalidation_mode=mode)
    return result.read_bytes()


def _files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"package {package} is not here: pip install peermesh")
        folder = Path(next(iter(spec.submodule_search_locations)))
        for path in folder.rglob("*.py"):
            name = path.relative_to(folder.parent).as_posix()
            if not name.startswith(SUPERFLUOUS):
                yield name, path


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the zip that is named: ``python -m peermesh.spark.delivery peermesh.zip``."""
    parser = argparse.ArgumentParser(prog="python -m peermesh.spark.delivery", description=__doc__)
    parser.add_argument("target", type=Path, help="the zip to write")
    build(parser.parse_args(arguments).target)


if __name__ == "__main__":
    main()
