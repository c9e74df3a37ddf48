"""Reports and timelines: what they show of a cluster at its end."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from endpoint.flight import FlightRecorder
from peermesh.testing.cluster import open_cluster
from peermesh.testing.faults import Partition
from peermesh.testing.report import EVENTS_MAX, Snapshot, report
from peermesh.testing.simulation import Simulation, simulate
from peermesh.testing.timeline import data_of, page
from wire.identifiers import EndpointId


@pytest.fixture
async def snapshot() -> Snapshot:
    """Look at a cluster that was cut, and in which one node was started anew."""
    async with open_cluster(3) as cluster:
        await cluster["a"].attach_master("s")
        await cluster["c"].restart()
        assert await cluster.await_converged()
        await cluster.link("a", "b").apply(Partition())
        await cluster["c"].subscribe("</script>")
        await cluster["c"].attach_clone("s")
    assert cluster.snapshot is not None
    return cluster.snapshot


async def test_a_report_shows_topology_knowledge_and_what_hangs(snapshot):
    text = report(snapshot)
    assert "b dials a; faults: Partition() both" in text
    assert re.search(r"b +running, [\d.:]+, peers with a, c'2", text)
    assert re.search(r"^ +a +\\ += +-3$", text, re.M), "a lacks three words of c, and says so"
    assert "store 's' at c: no master and no group" in text


async def test_a_report_tells_what_happened_in_causal_order(snapshot):
    lines = report(snapshot).partition("events in causal order")[2].splitlines()
    order = [
        next(at for at, line in enumerate(lines) if words in line)
        for words in (
            "start c:",
            "a     announced links b; no topics; stores",
            "restart c'2:",
            "peer_added c'2:",
            "fault b -- a: Partition()",
            "c'2   announced links b; topics '</script>'",
        )
    ]
    assert order == sorted(order)
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", "".join(lines)), "ids have names"


async def test_a_long_history_is_cut_in_the_report_and_whole_on_the_page(snapshot):
    flight = FlightRecorder(EndpointId(bytes(16)))
    for number in range(EVENTS_MAX + 5):
        flight.note(float(number), "note", f"the {number}th")
    long = replace(snapshot, nodes=(), journal=(flight.node, tuple(flight.records())))
    assert f"the last {EVENTS_MAX} of {EVENTS_MAX + 5}" in report(long)
    assert "the 4th" not in report(long)
    assert len(data_of(long)["events"]) == EVENTS_MAX + 5


async def test_a_page_needs_nothing_but_itself(snapshot):
    text = page(snapshot, "test_<b>{{data}}</b>")
    assert not re.findall(
        r"(?:src|href|url)\s*[=(]\s*[\"']?(?:https?:|//|[\w./]+\.(?:js|css))", text
    )
    assert "test_&lt;b&gt;{{data}}&lt;/b&gt;" in text, "a title is text, whatever stands in it"
    assert text.count("</script>") == 2, "no event ends the script that holds it"
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    assert json.loads(found[1]) == data_of(snapshot)


async def test_arrows_lead_from_earlier_rows_of_other_lanes(snapshot):
    data = data_of(snapshot)
    arrows = [(cause, at) for at, event in enumerate(data["events"]) for cause in event["causes"]]
    assert arrows
    for cause, at in arrows:
        assert cause < at
        assert data["events"][cause]["lane"] != data["events"][at]["lane"]
    assert data["lanes"] == ["test", "a", "b", "c", "c'2"]


def test_the_same_seed_gives_the_same_history_to_the_letter():
    reports = []

    async def main(_: Simulation) -> None:
        async with open_cluster(4, "random", world="sim", seed=5) as cluster:
            await cluster["b"].restart()
            await cluster["a"].attach_master("s")
            assert await cluster.await_converged()
        assert cluster.snapshot is not None
        reports.append(report(cluster.snapshot))

    for seed in (5, 5, 6):
        simulate(main, seed=seed)
    assert reports[0] == reports[1] != reports[2]
