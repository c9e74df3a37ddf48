"""Simulated swarms: endpoints, stores and random faults from one seed, and every promise watched.

``python -m peermesh.testing.swarm --seeds 1000`` runs them; ``docs/testing/swarm.md`` says more.
"""

from peermesh.testing.swarm.drawing import draw
from peermesh.testing.swarm.ledgers import Broken, Stuck
from peermesh.testing.swarm.plan import Plan
from peermesh.testing.swarm.running import Report, run_plan, run_seed

__all__ = ["Broken", "Plan", "Report", "Stuck", "draw", "run_plan", "run_seed"]
