"""What the wire has no room for is refused here, instead of by every peer."""

import pytest

from endpoint.mesh.core import EndpointCore
from wire.errors import LimitExceeded
from wire.identifiers import EndpointId
from wire.limits import STORES_MAX, SUBSCRIPTIONS_MAX


def test_too_many_topics_are_refused_and_change_nothing() -> None:
    core = EndpointCore(EndpointId(bytes(16)))
    core.subscribe("first", [f"/t/{number:06}" for number in range(SUBSCRIPTIONS_MAX)])
    before = core.topology.announcements[core.local]
    with pytest.raises(LimitExceeded, match="common beginnings"):
        core.subscribe("second", ["/u"])
    assert core.topology.announcements[core.local] is before
    core.subscribe("second", ["/t/"])
    assert core.topology.announcements[core.local].subscriptions == ("/t/",)


def test_too_many_stores_are_refused() -> None:
    core = EndpointCore(EndpointId(bytes(16)))
    for number in range(STORES_MAX):
        core.attach_store(f"s{number}/<$>/data/master", number)
    with pytest.raises(LimitExceeded):
        core.attach_store("one/<$>/data/master", "one")
