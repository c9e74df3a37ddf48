"""How much slower the mesh is without the compiled cbor2: ``python -m benchmarks.plain_cbor``.

Values are decoded and encoded in two processes, one with cbor2 and one with the stand-in that
executors get by ``--py-files``. With ``ZEEK_LOGS`` naming a folder that has ``zeek-dns.json.gz``,
its rows are among the values.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

ROUNDS = 9


def values() -> dict[str, list[object]]:
    """Give values to measure with, by what they are called."""
    found: dict[str, list[object]] = {
        "an integer": [5],
        "a table of two": [{"customer": "c1", "n": 17}],
        "10 KB of bytes": [bytes(10_000)],
        "a vector of 1,000 integers": [tuple(range(1_000))],
    }
    path = Path(os.environ.get("ZEEK_LOGS", ""), "zeek-dns.json.gz")
    if path.is_file():
        with gzip.open(path, "rt") as file:
            lines = list(islice(file, 200))
        found["a row of Zeek, as text"] = list(lines)
        found["a row of Zeek, as a table"] = [json.loads(line) for line in lines]
    return found


def microseconds(function: Callable[[], object], repetitions: int) -> float:
    """Give the least processor time of some rounds."""
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(repetitions):
            function()
        least = min(least, time.process_time() - began)
    return least * 1e6 / repetitions


def measure() -> dict[str, tuple[float, float]]:
    """Decode and encode with what is there as cbor2; gives microseconds for each value."""
    from wire.decoding import decode
    from wire.encoding import encode

    found = {}
    for name, each in values().items():
        encoded = [encode(value) for value in each]
        repetitions = max(3, 300 // len(each))
        found[name] = (
            microseconds(lambda data=encoded: [decode(one) for one in data], repetitions)
            / len(each),
            microseconds(lambda data=each: [encode(one) for one in data], repetitions) / len(each),
        )
    return found


def main() -> None:
    """Compare, or be one of the two."""
    if "--plain" in sys.argv:
        from peermesh.spark import plain_cbor

        sys.modules["cbor2"] = plain_cbor
    if "--measure" in sys.argv:
        print(json.dumps(measure()))
        return
    command = [sys.executable, "-m", "benchmarks.plain_cbor", "--measure"]
    compiled, plain = (
        json.loads(subprocess.check_output([*command, *more])) for more in ([], ["--plain"])
    )
    print("| value | decode, cbor2 | stand-in | times | encode, times |\n|---|---:|---:|---:|---:|")
    for name, (decoding, encoding) in compiled.items():
        slower, writing = plain[name]
        times, writing_times = slower / decoding, writing / encoding
        print(
            f"| {name} | {decoding:.1f} µs | {slower:.1f} µs | {times:.1f} | {writing_times:.1f} |"
        )


if __name__ == "__main__":
    main()
