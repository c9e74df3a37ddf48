"""What a failing test shows of its cluster: who knows whom, what hangs, what happened. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from endpoint.flight import Record
from peermesh.testing.faults import Direction, LinkFault
from peermesh.testing.recorder import Event, merge
from peermesh.testing.view import View
from wire.addresses import join_address
from wire.escaping import escape
from wire.identifiers import EndpointId

EVENTS_MAX: Final = 60
"""Events that the report in a terminal shows, the last ones: a screen or two. A page has all."""

MATRIX_NODES_MAX: Final = 30
"""Nodes up to which the report shows who knows whom as a matrix: its width is a screen's."""

TEST: Final = "test"
"""The name under which stands what the test itself did to the cluster."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node, as it was at the end of a test."""

    name: str
    node_ids: tuple[EndpointId, ...]
    """The ids of its lives, the last one last."""
    address: tuple[str, int]
    state: str
    view: View | None
    """What it saw of the mesh; ``None`` if it did not answer."""
    logs: tuple[tuple[Record, ...], ...]
    """The flight records of its lives."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cluster, as it was at the end of a test."""

    world: str
    nodes: tuple[NodeFacts, ...]
    links: tuple[tuple[str, str, tuple[tuple[LinkFault, Direction], ...]], ...]
    """Who dials, who listens, and the faults that stand."""
    journal: tuple[EndpointId, tuple[Record, ...]]
    """What the test did to the cluster."""

    def names(self) -> dict[EndpointId, str]:
        """Give the name that each id stands for; lives after the first are numbered."""
        names = {self.journal[0]: TEST}
        for node in self.nodes:
            for life, node_id in enumerate(node.node_ids):
                names[node_id] = node.name if life == 0 else f"{node.name}'{life + 1}"
        return names

    def events(self) -> list[Event]:
        """Give all that happened, in causal order."""
        logs = [log for node in self.nodes for log in node.logs]
        return merge([*logs, self.journal[1]])


def report(snapshot: Snapshot) -> str:
    """Write the report as text."""
    names = snapshot.names()
    lines = [
        f"world {snapshot.world}, {len(snapshot.nodes)} nodes",
        "",
        *_topology(snapshot, names),
        "",
        *_knowledge(snapshot.nodes),
        "",
        *_unacknowledged(snapshot.nodes),
        "",
        *_events(snapshot.events(), names),
    ]
    return escape(with_names("\n".join(lines), names), kept="\n")


def with_names(text: str, names: dict[EndpointId, str]) -> str:
    """Put names for ids."""
    for node_id, name in names.items():
        text = text.replace(str(node_id), name)
    return text


def _topology(snapshot: Snapshot, names: dict[EndpointId, str]) -> Iterator[str]:
    yield "topology:"
    for node in snapshot.nodes:
        links = [] if node.view is None else list(node.view.here.links)
        peers = ", ".join(sorted(names.get(link, str(link)) for link in links)) or "nobody"
        seen = f"peers with {peers}" if node.view is not None else "did not answer"
        host, port = node.address
        yield f"  {node.name}  {node.state}, {join_address(host, port)}, {seen}"
    for dials, listens, faults in snapshot.links:
        standing = ", ".join(f"{fault} {direction.value}" for fault, direction in faults)
        yield f"  {dials} dials {listens}" + (f"; faults: {standing}" if standing else "")


def _knowledge(nodes: Sequence[NodeFacts]) -> Iterator[str]:
    """Show how old everybody's news of everybody is: ``=`` is the latest, ``-n`` n words behind."""
    yield "who knows whom (a row of a column: = the latest word, -n all but n words, . nothing):"
    if len(nodes) > MATRIX_NODES_MAX:
        yield from _lacks(nodes)
        return
    width = max(4, *(len(node.name) + 1 for node in nodes)) if nodes else 4
    yield " " * width + "".join(f"{node.name:>{width}}" for node in nodes)
    for row in nodes:
        cells = "".join(f"{_cell(row, column):>{width}}" for column in nodes)
        yield f"{row.name:>{width}}{cells}"


def _cell(row: NodeFacts, column: NodeFacts) -> str:
    if row is column:
        return "\\"
    if row.view is None:
        return "?"
    heard = {each.origin: each.time for each in row.view.heard}.get(column.node_ids[-1])
    if heard is None:
        return "."
    if column.view is None:
        return "="
    behind = column.view.here.time - heard
    return f"-{behind}" if behind > 0 else "="


def _lacks(nodes: Sequence[NodeFacts]) -> Iterator[str]:
    """Name only what is missing, for clusters that are too large for a matrix."""
    for row in nodes:
        lacks = [each.name for each in nodes if each is not row and _cell(row, each) != "="]
        if lacks:
            yield f"  {row.name} lacks the latest of {', '.join(lacks)}"


def _unacknowledged(nodes: Sequence[NodeFacts]) -> Iterator[str]:
    yield "not acknowledged:"
    found = [
        f"  store {store!r} at {node.name}: {why}"
        for node in nodes
        if node.view is not None
        for store, why in node.view.stores
        if why
    ]
    yield from found or ["  nothing"]


def _events(events: Sequence[Event], names: dict[EndpointId, str]) -> Iterator[str]:
    shown = events[-EVENTS_MAX:]
    count = f"the last {len(shown)} of {len(events)}" if len(events) > len(shown) else "all"
    yield f"events in causal order ({count}; seconds, node, what):"
    start = events[0].record.at if events else 0.0
    width = max((len(names.get(event.record.node, "")) for event in shown), default=0)
    for event in shown:
        record = event.record
        name = names.get(record.node, str(record.node))
        about = f" {names.get(record.about, record.about)}:" if record.about is not None else ""
        text = record.text.replace("\n", "\n" + " " * (width + 15))
        yield f"  {record.at - start:+9.3f}  {name:<{width}}  {record.kind}{about} {text}"
