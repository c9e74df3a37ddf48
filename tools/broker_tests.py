"""``python -m tools.broker_tests CHECKOUT``: run Broker's own Python tests on ``peermesh.compat``.

They stay in their checkout, unchanged. What they import as ``broker`` is ``peermesh.compat.broker``
here. What passes is compared with a list of names, so that no test goes missing unseen.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
import unittest
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Final

COMPAT: Final = "peermesh.compat.broker"

LIST: Final = Path(__file__).with_suffix(".txt")
"""The names of Broker's tests: those of its Python bindings that need no Zeek."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them, and say which did not pass, or are not on the list; 0 if there are none."""
    parser = argparse.ArgumentParser(prog="python -m tools.broker_tests", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of Broker")
    parser.add_argument("names", nargs="*", help="run these alone, such as topic.TestTopic")
    told = parser.parse_args(arguments)
    folder = told.checkout / "tests" / "python"
    listed = LIST.read_text("utf-8").split()
    expected = [name for name in listed if name.startswith(tuple(told.names) or "")]
    stems = list(dict.fromkeys(name.partition(".")[0] for name in expected))
    missing = [f"{stem}.py" for stem in stems if not (folder / f"{stem}.py").is_file()]
    if missing or not stems:
        print(f"{folder} has no {', '.join(missing) or 'such tests'}: name a checkout of Broker")
        return 2
    for name in ("", ".zeek"):
        sys.modules[f"broker{name}"] = import_module(f"{COMPAT}{name}")
    with tempfile.TemporaryDirectory(prefix="peermesh-broker-tests-") as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        for key in Path(copy, "certs").glob("key.*"):
            key.chmod(0o600)  # In a checkout others may read them, which the mesh refuses.
        passed = {name for stem in stems for name in _run(Path(copy), stem, told.names)}
    problems = [f"not passed: {name}" for name in expected if name not in passed]
    problems += [f"not on the list: {name}" for name in sorted(passed.difference(expected))]
    print(*problems, f"{len(passed.intersection(expected))} of {len(expected)} passed", sep="\n")
    return int(bool(problems))


def _run(folder: Path, stem: str, wanted: Collection[str]) -> Iterator[str]:
    """Run the tests of one file, and give the names of those that pass."""
    # Some files have names that no module can have.
    spec = spec_from_file_location(stem.replace("-", "_"), folder / f"{stem}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    for test in _tests(unittest.defaultTestLoader.loadTestsFromModule(module)):
        name = f"{stem}.{test.id().partition('.')[2]}"
        if not name.startswith(tuple(wanted) or ""):
            continue
        told = io.StringIO()
        if unittest.TextTestRunner(told).run(test).wasSuccessful():
            yield name
        else:
            print(told.getvalue())


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from _tests(each)
        else:
            yield each


if __name__ == "__main__":
    sys.exit(main())
