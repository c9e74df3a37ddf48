"""Measures one mesh: what a change of it costs, and what an endpoint keeps."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time
from typing import Final

from benchmarks.scale.mesh import LATENCY_SECONDS, Mesh, Traffic, endpoint_id
from benchmarks.scale.paper import Cost, Plan, handshake, join, loss, share_within, subscription
from benchmarks.scale.shapes import Edge, contact_of
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.news import in_messages
from wire.clocks import VectorTime
from wire.codec import decode_control, encode_control, encode_header
from wire.identifiers import EndpointId
from wire.limits import TTL_DEFAULT
from wire.messages import Announcements, NodeHeader, PackedType

TOPIC: Final = "/measured"
START_LINKS_MAX: Final = 600
"""Links of the meshes whose common start is measured: beyond, it takes minutes."""


@dataclass(frozen=True)
class Change:
    """What one change cost, measured, and on paper beside it."""

    messages: int
    size: int
    seconds: float
    """Virtual time until the last core had learned of it."""
    cpu_seconds: float
    """Processor time of an endpoint, on average."""
    crossings_max: int
    """Messages over the busiest link, both directions together."""
    paper: Cost | None


@dataclass(frozen=True)
class Figures:
    """All figures of one mesh."""

    shape: str
    size: int
    links: int
    subscription: Change
    loss: Change
    join: Change
    start: Change | None
    """All endpoints dial all their peers at once; of small meshes only."""
    handshake_size: int
    """Bytes of the newcomer's handshake, in both directions."""
    handshake_paper: int
    knowledge_size: int
    """Bytes of memory that an endpoint takes for all that it has heard."""
    routes_size: int
    """Bytes of memory that it takes besides when everybody sends."""
    search_seconds: float
    """Processor time to find out who can be reached."""
    routes_seconds: float
    """Processor time to find all routes anew when everybody sends, after a change of links."""
    share_within_ttl: float
    """Share of the pairs that are near enough for a message."""


def measure(shape: str, size: int, edges: Sequence[Edge]) -> Figures:
    """Build a mesh, change it, and look at what that took."""
    plan, mesh = Plan(size, edges), Mesh.settled(size, edges)
    knowledge_size, routes_size = _memory(mesh, size)
    search_seconds, routes_seconds = _searching(mesh, size)
    middle, edge, contact = size // 2, edges[len(edges) // 2], contact_of(shape, size)
    begin, (left, right) = mesh.now, map(endpoint_id, edge)
    mesh.cut(left, right)
    lost = _change(mesh.run(), begin, size, loss(plan, edge))
    mesh.dial(left, right)
    mesh.run()
    begin = mesh.now
    mesh.subscribe(endpoint_id(middle), TOPIC)
    wish = _change(mesh.run(), begin, size, subscription(plan, middle, TOPIC))
    begin = mesh.now
    mesh.dial(mesh.join(size), endpoint_id(contact))
    traffic = mesh.run()
    return Figures(
        shape=shape,
        size=size,
        links=len(edges),
        subscription=wish,
        loss=lost,
        join=_change(traffic, begin, size, join(plan, contact)),
        start=_start(size, edges) if len(edges) <= START_LINKS_MAX else None,
        handshake_size=traffic.handshake_size,
        handshake_paper=handshake(plan),
        knowledge_size=knowledge_size,
        routes_size=routes_size,
        search_seconds=search_seconds,
        routes_seconds=routes_seconds,
        share_within_ttl=share_within(plan, TTL_DEFAULT),
    )


def _change(traffic: Traffic, begin: float, size: int, paper: Cost | None) -> Change:
    both_ways = (
        count + traffic.crossings[target, source]
        for (source, target), count in list(traffic.crossings.items())
    )
    return Change(
        messages=traffic.messages,
        size=traffic.size,
        seconds=round(traffic.changed_at - begin, 9),
        cpu_seconds=traffic.cpu_seconds / size,
        crossings_max=max(both_ways),
        paper=paper,
    )


def _start(size: int, edges: Sequence[Edge]) -> Change:
    mesh = Mesh()
    names = [mesh.join(number) for number in range(size)]
    for left, right in edges:
        mesh.dial(names[left], names[right])
    change = _change(mesh.run(), 0.0, size, None)
    assert all(len(core.topology.reachable()) == size - 1 for core in mesh.cores.values())
    return change


def _headers(mesh: Mesh) -> list[tuple[EndpointId, bytes]]:
    return [
        (each, encode_header(NodeHeader(PackedType.DATA, each, None, TOPIC))) for each in mesh.cores
    ]


def _memory(mesh: Mesh, size: int) -> tuple[int, int]:
    """Build one of the endpoints once more, from bytes: in the mesh they share what they know."""
    known = mesh.cores[endpoint_id(size // 2)]
    runs = in_messages(known.topology.announcements.values())
    encoded = [encode_control(Announcements(run)) for run in runs]
    headers = _headers(mesh)
    gc.collect()
    tracemalloc.start()
    try:
        core = EndpointCore(EndpointId(bytes(known.local)))
        for peer in known.topology.direct:
            core.connect(EndpointId(bytes(peer)), VectorTime(), (), None)
        peer = next(iter(core.topology.direct))
        for kind, body in encoded:
            message = decode_control(kind, body)
            assert isinstance(message, Announcements)
            core.receive_announcements(peer, message.items)
        del message, body
        gc.collect()
        knowledge_size, _ = tracemalloc.get_traced_memory()
        for sender, header in headers:
            core.routing.route(sender, header)
        gc.collect()
        return knowledge_size, tracemalloc.get_traced_memory()[0] - knowledge_size
    finally:
        tracemalloc.stop()


def _searching(mesh: Mesh, size: int) -> tuple[float, float]:
    """Let an endpoint lose a link and get it back: then nothing is left of the paths it knew."""
    core, headers = mesh.cores[endpoint_id(size // 2)], _headers(mesh)
    topology = core.topology
    peer = next(iter(topology.direct))
    topology.disconnect(peer)
    topology.connect(peer)
    begin = process_time()
    topology.reachable()
    search_seconds = process_time() - begin
    core.subscribe(core, (f"{TOPIC}/of/one",))  # which forgets the routes
    begin = process_time()
    for sender, header in headers:
        core.routing.route(sender, header)
    routes_seconds = process_time() - begin
    core.unsubscribe(core)
    return search_seconds, routes_seconds


def latencies(change: Change) -> float:
    """Give the time of a change in latencies of a link."""
    return change.seconds / LATENCY_SECONDS
