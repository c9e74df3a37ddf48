"""The ``peermesh`` command, which says what is missing before it imports it."""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA_MISSING = "peermesh: the command line needs click and rich: pip install 'peermesh[cli]'\n"


def main() -> None:
    """Run the command line, and exit with its code."""
    try:
        import rich  # noqa: F401 - only to know that it is there

        from peermesh.cli.application import run
        from peermesh.cli.tracebacks import install
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        sys.stderr.write(_EXTRA_MISSING)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
    install()
    sys.exit(run(sys.argv[1:]))
