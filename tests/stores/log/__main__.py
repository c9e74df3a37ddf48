"""``python -m tests.stores.log --first 0 --seeds 1000``: the model of groups over logs."""

from __future__ import annotations

import sys

from tests.stores.log.model import run_seed
from tests.stores.table.__main__ import main

if __name__ == "__main__":
    sys.exit(main(run_seed, __doc__))
