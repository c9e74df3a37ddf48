"""``python -m peermesh.testing.agent``: what a cluster starts for each of its nodes."""

import sys

from peermesh.testing.agent.program import main

main(sys.argv[1:])
