"""The command line: ``python -m benchmarks [NAME ...]``."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Final

from benchmarks.harness import Benchmark, Result, run_benchmark
from benchmarks.report import json_line, readable, write

NAMES: Final = (
    "pubsub",
    "mixes",
    "doors",
    "latency",
    "relay",
    "store",
    "queries",
    "replicas",
    "log",
    "footprint",
    "modules",
    "edge",
    "websocket",
    "uploads",
    "qos2",
    "signing",
    "tls",
)
ROUNDS: Final = 3
ROUNDS_WRITTEN: Final = 5

EPILOGUE: Final = """\
benchmarks:
  pubsub     messages a second from one process to another, small, large and structured
  mixes      the same where each message may have another topic: 1 to 1,000, in turn, at random
  doors      the same work in trio, in asyncio, in uvloop and in threads
  latency    the time of a request and its reply
  relay      messages a second through a third endpoint, beside the direct way
  store      puts, gets and the first fill of a clone
  queries    compare and set, scans, and what fifty watches are told
  replicas   mixes of commands at a master, in groups of one and three, in Redis and etcd
  log        acknowledged appends, and reads with and without a copy
  modules    messages a second through a link of the module broker, and to a process and back
  edge       messages a second through a channel of the edge broker
  websocket  events a second between clients of the WebSocket gateway
  uploads    megabytes a second through the WebHDFS gateway, beside SQLite alone
  qos2       messages a second, each exactly once, through the QoS-2 broker and mosquitto
  signing    what signatures cost
  tls        all of it over TLS, beside plain TCP, and peerings a second
  footprint  what an import, an idle endpoint and an idle mesh cost

All of them run unless some are named. Each prints a table and then one line of JSON. A round of all
takes about a minute. Close other programs first: the machine's own noise is the largest error, and
"foreign" in the table is what others took of it. The extra "bench" brings pyzmq, Zenoh and
paho-mqtt for comparison: pip install 'peermesh[bench]'. Without them their rows say so.
"""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure peermesh beside the floors of this machine.",
        epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", choices=[[], *NAMES], help=f"one of {', '.join(NAMES)}"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"how often each variant runs (default: {ROUNDS}; with --write {ROUNDS_WRITTEN})",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one round of 200 messages: shows that all of it works, and measures nothing",
    )
    parser.add_argument(
        "--match", default="", metavar="TEXT", help="only variants whose name contains TEXT"
    )
    parser.add_argument("--json", action="store_true", help="print the lines of JSON only")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the figures as Markdown")
    options = parser.parse_args(arguments)
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds has to be at least 1")
    return options


def load(name: str) -> Benchmark:
    """Find a benchmark by its name."""
    benchmark: Benchmark = importlib.import_module(f"benchmarks.{name}").BENCHMARK
    return benchmark


def main() -> int:
    """Run what was asked for; give 1 if a run failed."""
    options = parse()
    rounds = 1 if options.quick else options.rounds or (ROUNDS_WRITTEN if options.write else ROUNDS)
    results = []
    for name in options.names or NAMES:
        result = run_benchmark(
            load(name), rounds, quick=options.quick, match=options.match, say=_progress
        )
        if not options.json:
            print(readable(result))
        print(json_line(result, rounds=rounds, quick=options.quick), flush=True)
        results.append(result)
    if options.write:
        write(options.write, results, rounds=rounds)
    return int(any(_has_failed(result) for result in results))


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\x1b[2K\r{text}", end="\r", file=sys.stderr, flush=True)


def _has_failed(result: Result) -> bool:
    return any(None in outcome.rounds for outcome in result.outcomes)


if __name__ == "__main__":
    sys.exit(main())
