"""Meshes of pure cores: floods cost what the paper model says, link by link."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.scale import page
from benchmarks.scale.measuring import Figures, latencies, measure
from benchmarks.scale.mesh import Mesh, endpoint_id
from benchmarks.scale.shapes import SHAPES

ROOT = Path(__file__).parents[2]
SIZE = 12

by_shape = pytest.mark.parametrize("shape", list(SHAPES))


@pytest.fixture(scope="module")
def results() -> dict[str, Figures]:
    return {shape: measure(shape, SIZE, draw(SIZE)) for shape, draw in SHAPES.items()}


@by_shape
@pytest.mark.parametrize("change", ["subscription", "loss", "join"])
def test_messages_and_time_are_those_of_the_paper_and_bytes_nearly(
    results: dict[str, Figures], shape: str, change: str
) -> None:
    found = getattr(results[shape], change)
    assert found.messages == found.paper.messages
    assert latencies(found) == pytest.approx(found.paper.trips)
    assert found.size == pytest.approx(found.paper.size, rel=0.03)


@by_shape
def test_a_flood_crosses_no_link_more_than_twice(results: dict[str, Figures], shape: str) -> None:
    assert results[shape].subscription.crossings_max <= 2
    assert results[shape].join.crossings_max <= 2 * 2
    assert results[shape].loss.crossings_max <= 2 * 2


@by_shape
def test_what_a_newcomer_is_told_is_what_the_paper_says(
    results: dict[str, Figures], shape: str
) -> None:
    figures = results[shape]
    assert figures.handshake_size == pytest.approx(figures.handshake_paper, rel=0.1)


@by_shape
def test_a_settled_mesh_is_the_one_that_floods_lead_to(shape: str) -> None:
    edges = SHAPES[shape](SIZE)
    grown = Mesh()
    names = [grown.join(number) for number in range(SIZE)]
    for left, right in edges:
        grown.dial(names[left], names[right])
        grown.run()
    settled = Mesh.settled(SIZE, edges)
    for name, core in settled.cores.items():
        other = grown.cores[name].topology
        assert core.topology.reachable() == other.reachable()
        for origin, news in core.topology.announcements.items():
            assert news.links == other.announcements[origin].links
    assert settled.links() == grown.links() == len(edges)


def test_nothing_reaches_a_part_that_is_cut_off() -> None:
    mesh = Mesh.settled(4, SHAPES["line"](4))
    mesh.cut(endpoint_id(1), endpoint_id(2))
    mesh.run()
    mesh.subscribe(endpoint_id(0), "news")
    assert mesh.run().messages == 1


def test_the_page_and_its_pictures_are_renewed_from_the_figures(
    results: dict[str, Figures], tmp_path: Path
) -> None:
    path = tmp_path / "page.md"
    before = "kept\n<!-- measured: messages -->\nstale\n<!-- measured: end -->\nkept, too\n"
    path.write_text(before, "utf-8")
    page.write(path, list(results.values()))
    text = path.read_text("utf-8")
    assert text.startswith("kept\n")
    assert text.endswith("kept, too\n")
    assert "| star 12 | 11 |" in text
    assert "stale" not in text
    drawn = sorted((tmp_path / "page").iterdir())
    assert [each.stem for each in drawn] == sorted(page.pictures(list(results.values())))
    for each in drawn:
        assert ElementTree.parse(each).getroot().tag.endswith("svg")


def test_a_small_run_prints_a_line_of_json_for_each_mesh() -> None:
    command = [sys.executable, "-m", "benchmarks.scale", "--sizes", "5", "--shapes", "ring", "full"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["shape"] for line in done.stdout.splitlines()] == ["ring", "full"]
