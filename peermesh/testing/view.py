"""What one node sees of the mesh, and what is missing until a cluster agrees. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, permutations
from typing import Any

from wire.codec import decode_control, encode_control
from wire.errors import DecodeError
from wire.identifiers import EndpointId
from wire.messages import Announcement, Announcements
from wire.values import Count

Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class View:
    """The mesh as one node sees it at one moment."""

    here: Announcement
    """What the node itself announced last."""
    heard: tuple[Announcement, ...]
    """What it heard last of everybody whom it can reach."""
    stores: tuple[tuple[str, str], ...]
    """Its stores, and what each of them waits for; empty if for nothing."""
    digest: int
    """Changes whenever the mesh does."""

    @property
    def node(self) -> EndpointId:
        """Say whose view it is."""
        return self.here.origin

    def known(self) -> dict[EndpointId, Announcement]:
        """Give what was heard, by its origin."""
        return {each.origin: each for each in self.heard}


def to_value(view: View) -> tuple[Any, ...]:
    """Write a view as a value that can travel."""
    kind, body = encode_control(Announcements((view.here, *view.heard)))
    return (int(kind), body, view.stores, Count(view.digest))


def from_value(value: Any) -> View:  # noqa: ANN401 - a decoded value
    """Read a view back; raises ``DecodeError``."""
    kind, body, stores, digest = value
    message = decode_control(kind, body)
    if not isinstance(message, Announcements):
        raise DecodeError("a view is made of announcements")
    here, *heard = message.items
    return View(here, tuple(heard), stores, digest.value)


def missing(
    views: Mapping[str, View],
    edges: Collection[Edge],
    *,
    loose: Collection[Edge] = (),
    gone: Mapping[EndpointId, str] | None = None,
) -> list[str]:
    """Say in sentences what keeps nodes from agreeing; nothing if they agree.

    They agree when all ``edges`` stand and no others do, and all that are connected by them have
    heard each other's latest word. ``loose`` edges may stand or not. ``gone`` are the endpoints
    that have ended, by the names of their nodes.
    """
    known = {frozenset(edge) for edge in (*edges, *loose)}
    return [
        *_missing_links(views, edges),
        *_needless_links(views, known, gone or {}),
        *_missing_news(views, edges),
    ]


def _needless_links(
    views: Mapping[str, View], known: Collection[frozenset[str]], gone: Mapping[EndpointId, str]
) -> Iterator[str]:
    names = {view.node: name for name, view in views.items()}
    for name, view in views.items():
        for link in view.here.links:
            other = names.get(link)
            if link in gone:
                yield f"{name} has not noticed the end of {gone[link]}"
            elif other is not None and frozenset((name, other)) not in known:
                yield f"the link {name}-{other} stands still, as {name} sees it"


def _missing_links(views: Mapping[str, View], edges: Collection[Edge]) -> Iterator[str]:
    for dials, listens in edges:
        here, there = views[dials], views[listens]
        sides = [
            name
            for name, view, other in ((dials, here, there), (listens, there, here))
            if other.node not in view.here.links
        ]
        if sides:
            yield f"the link {dials}-{listens} does not stand, as {' and '.join(sides)} see it"


def _missing_news(views: Mapping[str, View], edges: Collection[Edge]) -> Iterator[str]:
    known = {name: view.known() for name, view in views.items()}
    groups = components(list(views), edges)
    for name, other in chain.from_iterable(permutations(group, 2) for group in groups):
        heard = known[name].get(views[other].node)
        yield from _lack(name, other, heard, views[other].here)


def _lack(name: str, other: str, heard: Announcement | None, latest: Announcement) -> Iterator[str]:
    if heard is None:
        yield f"{name} does not know {other}"
        return
    if heard.time >= latest.time:
        return
    topics = [topic for topic in latest.subscriptions if topic not in heard.subscriptions]
    stores = [store for store in latest.stores if store not in heard.stores]
    lacks = [f"topic {topic!r}" for topic in topics] + [f"store {store!r}" for store in stores]
    what = f": {', '.join(lacks)} has not come" if lacks else ""
    yield f"{name} has old news of {other} (of {heard.time:d}, not {latest.time:d}){what}"


def components(nodes: Sequence[str], edges: Iterable[Edge]) -> list[list[str]]:
    """Group the nodes that edges connect, in their order."""
    group = {node: [node] for node in nodes}
    for left, right in edges:
        if group[left] is not group[right]:
            group[left] += group[right]
            for node in group[right]:
                group[node] = group[left]
    distinct = {id(each): each for each in group.values()}
    return [sorted(each, key=nodes.index) for each in distinct.values()]
