"""Trees and next hops, against a plain breadth-first search."""

from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from endpoint.mesh import topology as module
from endpoint.mesh.topology import TREES_MAX, Topology
from wire.clocks import LamportTime
from wire.identifiers import EndpointId
from wire.messages import Announcement

IDS = [EndpointId(bytes([number]) * 16) for number in range(1, 9)]
Edges = set[tuple[EndpointId, EndpointId]]


def announcement(origin: EndpointId, edges: Edges, *, forwarding: bool = True) -> Announcement:
    links = {right if left == origin else left for left, right in edges if origin in (left, right)}
    return Announcement(origin, LamportTime(1), tuple(sorted(links)), (), (), forwarding)


def view(local: EndpointId, edges: Edges, leaves: tuple[EndpointId, ...] = ()) -> Topology:
    topology = Topology(local)
    for origin in IDS:
        topology.learn(announcement(origin, edges, forwarding=origin not in leaves))
    for peer in announcement(local, edges).links:
        topology.connect(peer)
    return topology


def distances(root: EndpointId, edges: Edges) -> dict[EndpointId, int]:
    found, frontier = {root: 0}, [root]
    while frontier:
        here = frontier.pop(0)
        for left, right in edges:
            for near, far in ((left, right), (right, left)):
                if near == here and far not in found:
                    found[far] = found[here] + 1
                    frontier.append(far)
    return found


graphs = st.sets(st.sampled_from(list(combinations(IDS, 2))))


@given(graphs, st.sampled_from(IDS))
def test_a_tree_reaches_what_a_search_reaches_by_shortest_paths(
    edges: Edges, root: EndpointId
) -> None:
    tree = view(IDS[0], edges).tree(root)
    expected = distances(root, edges)
    assert {root, *tree.parents} == set(expected)
    for endpoint, parent in tree.parents.items():
        assert expected[parent] == expected[endpoint] - 1


@given(graphs, st.sampled_from(IDS), st.sets(st.sampled_from(IDS)))
def test_passing_on_by_next_hops_reaches_every_target_once_and_no_link_twice(
    edges: Edges, root: EndpointId, targets: set[EndpointId]
) -> None:
    views = {local: view(local, edges) for local in IDS}
    arrived: list[EndpointId] = []
    used: list[tuple[EndpointId, EndpointId]] = []
    holders = [root]
    while holders:
        here = holders.pop()
        arrived.append(here)
        for hop in views[here].tree(root).next_hops(here, sorted(targets)):
            used.append((here, hop))
            holders.append(hop)
    reachable = set(distances(root, edges))
    assert targets & reachable <= set(arrived)
    assert len(arrived) == len(set(arrived))
    links = [frozenset(pair) for pair in used]
    assert len(links) == len(set(links))
    leaves = set(arrived) - {here for here, _ in used} - {root}
    assert leaves <= targets, "a branch without a target was used"


@given(st.lists(st.tuples(graphs, st.sampled_from(IDS)), min_size=2, max_size=5))
def test_what_is_kept_of_older_graphs_never_shows(history: list[tuple[Edges, EndpointId]]) -> None:
    local = IDS[0]
    topology = Topology(local)
    for time, (edges, absent) in enumerate(history, start=1):
        known = [origin for origin in IDS if origin != local and origin != absent]
        for origin in known:
            links = announcement(origin, edges).links
            topology.learn(Announcement(origin, LamportTime(time), links, (), (), True))
        if absent in topology.announcements:
            topology.forget(absent)
        direct = announcement(local, edges).links
        for peer in topology.direct.keys() - set(direct):
            topology.disconnect(peer)
        for peer in direct:
            topology.connect(peer)
        anew = Topology(local)
        for origin in known:
            anew.learn(announcement(origin, edges))
        for peer in direct:
            anew.connect(peer)
        for root in (local, *known):
            assert topology.tree(root) == anew.tree(root)


def test_an_endpoint_that_names_itself_as_its_link_leads_nobody_in_circles() -> None:
    a, b, c, d = IDS[:4]
    topology = Topology(a)
    topology.connect(b)
    for origin, links in ((b, (a, c)), (c, (b, c, d)), (d, (c,))):
        topology.learn(Announcement(origin, LamportTime(1), links, (), (), True))
    tree = topology.tree(c)
    assert tree.parents == {b: c, d: c, a: b}
    assert tree.next_hops(a, (b, d)) == ()


def test_a_link_counts_only_when_both_ends_announce_it() -> None:
    a, b, c = IDS[:3]
    topology = Topology(a)
    topology.connect(b)
    topology.learn(Announcement(b, LamportTime(1), (a, c), (), (), True))
    topology.learn(Announcement(c, LamportTime(1), (), (), (), True))
    assert list(topology.reachable()) == [b]
    topology.learn(Announcement(c, LamportTime(2), (b,), (), (), True))
    assert list(topology.reachable()) == [b, c]


def test_an_own_link_counts_before_its_other_end_has_announced_it() -> None:
    a, b = IDS[:2]
    topology = Topology(a)
    topology.connect(b)
    assert list(topology.reachable()) == [b]
    assert topology.tree(b).parents == {a: b}


def test_no_route_leads_through_a_leaf_but_its_own_messages_leave() -> None:
    a, b, c = IDS[:3]
    topology = view(a, {(a, b), (b, c)}, leaves=(b,))
    assert list(topology.reachable()) == [b]
    assert set(topology.tree(b).parents) == {a, c}


@pytest.mark.parametrize("time", [1, 2])
def test_old_news_is_no_news(time: int) -> None:
    topology = Topology(IDS[0])
    news = Announcement(IDS[1], LamportTime(2), (IDS[0],), (), (), True)
    assert topology.learn(news)
    assert not topology.learn(Announcement(IDS[1], LamportTime(time), (), (), (), True))
    assert topology.announcements[IDS[1]] is news


def test_a_link_is_told_of_own_and_of_others_and_none_of_who_is_unknown() -> None:
    a, b, c, d = IDS[:4]
    topology = Topology(a)
    topology.connect(b)
    assert topology.is_link(a, b)
    assert topology.is_link(b, a)
    for left, right in ((a, c), (c, a), (c, d), (d, c)):
        assert not topology.is_link(left, right)
    topology.learn(Announcement(c, LamportTime(1), (d,), (), (), True))
    assert not topology.is_link(c, d)
    assert not topology.is_link(d, c)
    topology.learn(Announcement(d, LamportTime(1), (c,), (), (), True))
    assert topology.is_link(c, d)
    assert topology.is_link(d, c)


def test_a_tree_is_kept_until_the_graph_changes() -> None:
    a, b, c = IDS[:3]
    topology = Topology(a)
    topology.connect(b)
    tree = topology.tree(b)
    assert topology.tree(b) is tree
    assert tree.root == b
    topology.learn(Announcement(b, LamportTime(1), (a,), (), (), True))
    changed = topology.tree(b)
    assert changed is not tree
    topology.learn(Announcement(b, LamportTime(2), (a,), ("/t",), (), True))
    assert topology.tree(b) is changed, "it has the same links"
    topology.learn(Announcement(b, LamportTime(3), (a,), (), (), False))
    assert topology.tree(b) is not changed, "nothing is routed through it any more"
    topology.learn(Announcement(c, LamportTime(1), (b,), (), (), True))
    before = topology.tree(b)
    topology.forget(c)
    assert topology.tree(b) is not before


def test_so_many_trees_are_kept(monkeypatch) -> None:
    assert TREES_MAX == 512
    monkeypatch.setattr(module, "TREES_MAX", 3)
    topology = Topology(IDS[0])
    topology.connect(IDS[1])
    topology.learn(Announcement(IDS[1], LamportTime(1), (IDS[0],), (), (), True))
    trees = [topology.tree(each) for each in IDS[:3]]
    assert [topology.tree(each) for each in IDS[:3]] == trees
    assert all(topology.tree(each) is tree for each, tree in zip(IDS, trees, strict=False))
    topology.tree(IDS[3])
    assert topology.tree(IDS[0]) is not trees[0]


def test_what_an_endpoint_that_is_gone_published_goes_by_its_last_links() -> None:
    a, b, c = IDS[:3]
    topology = Topology(a)
    topology.connect(b)
    topology.learn(Announcement(b, LamportTime(2), (a,), (), (), True))
    topology.learn(Announcement(c, LamportTime(1), (b,), (), (), True))
    assert topology.neighbours(c) == ()
    assert topology.tree(c).parents == {b: c, a: b}
    topology.forget(c)
    assert topology.tree(c).parents == {}


def test_neighbours_are_sorted_and_kept_until_a_link_of_theirs_changes() -> None:
    a, b, c, d = IDS[:4]
    topology = Topology(a)
    for origin, links in ((b, (c, d)), (c, (b,)), (d, (b,))):
        topology.learn(Announcement(origin, LamportTime(1), links, (), (), True))
    found = topology.neighbours(b)
    assert found == (c, d)
    assert topology.neighbours(b) is found
    topology.connect(d)
    topology.connect(b)
    assert topology.neighbours(b) == (a, c, d)
    assert topology.neighbours(a) == (b, d)
    topology.disconnect(d)
    assert topology.neighbours(a) == (b,)
    topology.learn(Announcement(c, LamportTime(2), (), (), (), True))
    assert topology.neighbours(b) == (a, d)
