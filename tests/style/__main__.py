"""Shows which lines break the rules of English: ``python -m tests.style``.

With ``--write`` entries that are no longer needed leave the list of allowed lines. Nothing enters
it: a new line that breaks a rule is written anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.style.english import ALLOWED, found, read_allowed, write_allowed


def main(arguments: Sequence[str]) -> int:
    """Compare the project with its list; the code is 1 if a line broke a rule and is not on it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="remove entries that are not needed")
    options = parser.parse_args(arguments)
    allowed, lines = read_allowed(ALLOWED.read_text("utf-8")), found()
    needed, new = allowed & lines, lines - allowed
    if options.write:
        ALLOWED.write_text(write_allowed(needed.elements()), "utf-8")
    sys.stdout.writelines(f"{line}\n" for line in sorted(new.elements()))
    print(f"{new.total()} new, {needed.total()} allowed, {(allowed - lines).total()} needless")
    return int(bool(new))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
