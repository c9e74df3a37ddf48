"""A writer's requests and their outcomes, whatever is said about them."""

from __future__ import annotations

from stores import effects as fx
from stores.actions import WriterId
from stores.outcomes import Applied, Outcome
from stores.writing import Writing
from wire.identifiers import EndpointId, EntityId

WRITER = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)


def test_outcomes_of_what_was_never_asked_resolve_nothing():
    effects: list[fx.Effect] = []
    writing = Writing(WRITER, effects, incarnation=1)
    writing.add_encoded(2, b"asked")
    writing.resolve(Outcome(2**62, 2**62, Applied(1)))
    assert effects == []
    writing.resolve(Outcome(1, 2**62, Applied(1)))
    assert effects == [fx.Resolve(Outcome(1, 2, Applied(1)))]
