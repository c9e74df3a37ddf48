"""The table in docs/testing/faults.md: what it says of each world is what that world does."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from peermesh.testing import disks
from peermesh.testing.cluster import Link
from peermesh.testing.disks import DiskFault, FailingSync, FailingWrite, LyingSync, SlowSync
from peermesh.testing.faults import (
    Delay,
    Duplication,
    LinkFault,
    Loss,
    Partition,
    RateLimit,
    Reordering,
    Reset,
    SlowClose,
    Unsupported,
)
from peermesh.testing.node import Node

PAGE = Path(__file__).parents[3] / "docs" / "testing" / "faults.md"
WORLDS = ("sim", "loopback", "process", "netns")

Try = Callable[[Link, Node], Awaitable[None]]


def on_link(fault: LinkFault) -> Try:
    async def attempt(link: Link, _: Node) -> None:
        await link.apply(fault)
        await link.heal()

    return attempt


def on_disk(fault: DiskFault) -> Try:
    async def attempt(_: Link, node: Node) -> None:
        await node.disturb_disk(fault)
        await node.heal_disk()

    return attempt


async def pause(_: Link, node: Node) -> None:
    await node.pause()
    await node.resume()


async def skew(_: Link, node: Node) -> None:
    await node.skew_clock(60)
    await node.skew_clock(0)


async def kill(_: Link, node: Node) -> None:
    await node.kill()
    await node.restart()


TRIES: dict[str, Try] = {
    "`Delay`": on_link(Delay(0.01)),
    "`Loss`": on_link(Loss(0.1)),
    "`Duplication`": on_link(Duplication(0.1)),
    "`Reordering`": on_link(Reordering(0.1)),
    "`RateLimit`": on_link(RateLimit(100_000)),
    "`SlowClose`": on_link(SlowClose(0.1)),
    "`Reset`": on_link(Reset()),
    "`Reset(after_seconds)`": on_link(Reset(60)),
    "`Partition`": on_link(Partition()),
    "`pause`, `resume`": pause,
    "`skew_clock`": skew,
    "`FailingSync`": on_disk(FailingSync()),
    "`LyingSync`": on_disk(LyingSync()),
    "`SlowSync`": on_disk(SlowSync(0.01)),
    "`FailingWrite`": on_disk(FailingWrite()),
    "`kill`, `restart`": kill,
}


def rows() -> dict[str, dict[str, str]]:
    """Give what the page says: of each fault, of each world."""
    lines = [re.split(r"\s*\|\s*", line) for line in PAGE.read_text("utf-8").splitlines()]
    at = lines.index(["", "fault", *(f"`{world}`" for world in WORLDS), ""])
    table: dict[str, dict[str, str]] = {}
    for line in lines[at + 2 :]:
        if len(line) != len(WORLDS) + 3:
            break
        table[line[1]] = dict(zip(WORLDS, line[2:-1], strict=True))
    return table


def test_the_table_has_every_fault():
    assert rows().keys() == TRIES.keys()


@pytest.mark.worlds(*WORLDS)
async def test_a_world_can_what_the_table_says(cluster, world):
    pair = await cluster(2)
    wrong = []
    for name, attempt in TRIES.items():
        cell = rows()[name][world]
        try:
            await attempt(pair.link("a", "b"), pair["b"])
        except Unsupported as error:
            is_machine = error.world == disks.WORLD or "where" in cell
            wrong += [] if is_machine or cell.startswith("no") else [f"{name}: {error}"]
        else:
            wrong += [f"{name}: it can"] if cell.startswith("no") else []
    assert wrong == []
    assert await pair.await_converged()
