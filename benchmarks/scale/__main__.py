"""The command line: ``python -m benchmarks.scale``."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.scale.measuring import measure
from benchmarks.scale.page import write
from benchmarks.scale.shapes import SHAPES, shapes_of

SIZES: Final = (10, 30, 100, 300, 1000)
SIZE_MIN: Final = 5
"""Smaller ones have no middle to speak of."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description="Measure meshes of pure cores in virtual time. All sizes take some minutes.",
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="endpoints (default: %(default)s)"
    )
    parser.add_argument(
        "--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES), metavar="SHAPE",
        help=f"some of {', '.join(SHAPES)} (default: all)",
    )  # fmt: skip  # three lines of help, not nine of brackets
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="renew a page, and the pictures beside it"
    )
    options = parser.parse_args(arguments)
    if min(options.sizes) < SIZE_MIN:
        parser.error(f"--sizes begin at {SIZE_MIN}")
    return options


def main() -> int:
    """Measure what was asked for; print a line of JSON for each mesh."""
    options = parse()
    results = []
    for size in sorted(options.sizes):
        for shape, edges in shapes_of(size):
            if shape not in options.shapes:
                continue
            _progress(f"{shape} of {size}")
            results.append(measure(shape, size, edges))
            print(json.dumps(asdict(results[-1])), flush=True)
    _progress("")
    if options.write:
        write(options.write, results)
    return 0


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\x1b[2K\r{text}", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
