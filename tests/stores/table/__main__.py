"""``python -m tests.stores.table --first 0 --seeds 1000``: the model of groups over tables."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.stores.table import holders, model


def main(run_seed, description, with_sessions=None):
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default: 0)")
    if with_sessions is not None:
        parser.add_argument("--sessions", action="store_true", help="with holders of sessions")
    options = parser.parse_args()
    if with_sessions is not None and options.sessions:
        run_seed = with_sessions
    failed, total = 0, Counter()
    for seed in range(options.first, options.first + options.seeds):
        failure, figures = run_seed(seed)
        total.update(figures)
        if failure is not None:
            failed += 1
            print(f"seed {seed}: {failure[:300]}", flush=True)
    print(f"{failed} of {options.seeds} seeds failed; {dict(total)}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(model.run_seed, __doc__, holders.run_seed))
