"""``python -m tests.audit``: known vulnerabilities of what we depend on, lowest and newest.

It asks the advisory service of the package index (with ``--service osv``, that of osv.dev) through
pip-audit. A build without a way to that service cannot know: it says so, loudly, and passes; with
``--required`` it fails, and so it does for any package that was not looked at.
``--lowest cli test`` only writes the lowest versions, of the core and those extras, for pip.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.audit.requirements import installed, lowest_here, names, text
from tests.audit.verdict import Verdict, is_good, verdict

SECONDS_MAX = 120
"""For one list of packages: the service is asked for each of some dozens."""


def ask(versions: dict[str, str], service: str) -> Verdict | None:
    """Have pip-audit look at some versions."""
    with TemporaryDirectory(prefix="peermesh-audit-") as directory:
        file = Path(directory, "requirements.txt")
        file.write_text(text(versions))
        options = ("--requirement", file, "--no-deps", "--disable-pip", "--vulnerability-service")
        shown = ("--format", "json", "--progress-spinner", "off", "--timeout", "10")
        command = [sys.executable, "-m", "pip_audit", *map(str, options), service, *shown]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
            )
        except subprocess.TimeoutExpired:
            return None
    found = verdict(done.stdout)
    if found is None:
        print((done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1])
    return found


def tell(what: str, found: Verdict | None) -> None:
    """Say what was found, and above all what was not looked at."""
    if found is None or not found.audited:
        print(
            f"NOT AUDITED: the {what} versions. The advisory service does not answer here, so that"
            " nobody has looked; make check AUDIT=--required makes this a failure."
        )
        return
    print(f"audited: {len(found.audited)} packages, {what} versions; {len(found.faults)} faults")
    if found.skipped:
        print(f"NOT AUDITED: {names(found.skipped)}")
    for fault in found.faults:
        print(f"  {fault}")


def main() -> int:
    """Audit; the code is 0 if nothing is known to be wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__)
    parser.add_argument("--service", choices=("pypi", "osv"), default="pypi")
    parser.add_argument(
        "--lowest", nargs="*", metavar="EXTRA", help="write the lowest versions, and end"
    )
    parser.add_argument("--required", action="store_true", help="fail unless all was looked at")
    given = parser.parse_args()
    if given.lowest is not None:
        print(text(lowest_here(given.lowest)), end="")
        return 0
    good = []
    for what, versions in (("lowest", lowest_here()), ("installed", installed())):
        found = ask(versions, given.service)
        tell(what, found)
        good.append(is_good(found, is_required=given.required))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
