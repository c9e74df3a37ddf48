"""Checkers: each looks at a recorded history, and says whether one promise held, or why not."""

from peermesh.testing.checkers.at_most_one_peering import at_most_one_peering
from peermesh.testing.checkers.exactly_once import exactly_once
from peermesh.testing.checkers.linearizable import linearizable
from peermesh.testing.checkers.models import KeyValue, Model, Step
from peermesh.testing.checkers.monotonic import monotonic
from peermesh.testing.checkers.one_winner import one_winner
from peermesh.testing.checkers.prefix_consistent import prefix_consistent
from peermesh.testing.checkers.time_to_live import no_message_outlives_its_ttl
from peermesh.testing.checkers.verdict import Finding, Verdict
from peermesh.testing.checkers.watch import watch

__all__ = [
    "Finding",
    "KeyValue",
    "Model",
    "Step",
    "Verdict",
    "at_most_one_peering",
    "exactly_once",
    "linearizable",
    "monotonic",
    "no_message_outlives_its_ttl",
    "one_winner",
    "prefix_consistent",
    "watch",
]
