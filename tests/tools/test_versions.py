"""The harness of two versions runs both as processes, and notices when they do not agree."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from tools import versions
from tools.versions import Release, Scenario, this_checkout, tried

LIAR = """
import json, runpy, sys
if sys.argv[1:3] == ["log", "read"]:
    print(json.dumps({"v": 1, "value": "something else"}))
else:
    sys.argv[0] = "peermesh"
    runpy.run_module("peermesh", run_name="__main__")
"""

OTHER_WIRE = """
import runpy, sys
import wire.framing
wire.framing.VERSION_MIN, wire.framing.VERSION_MAX = 1, 1
runpy.run_module("peermesh", run_name="__main__")
"""


LONG = (versions.store, versions.log, versions.dump, versions.files)


@pytest.fixture
async def pair(tmp_path) -> tuple[Release, Release]:
    older = replace(this_checkout(tmp_path / "older"), name="the older one")
    newer = this_checkout(tmp_path / "newer")
    await versions.share_a_secret(older)
    return older, newer


def altered(release: Release, program: str) -> Release:
    return replace(release, command=(sys.executable, "-c", program))


@pytest.mark.parametrize(
    "scenario",
    [versions.messages, *(pytest.param(each, marks=pytest.mark.long) for each in LONG)],
)
async def test_releases_that_agree_pass(pair, scenario: Scenario) -> None:
    assert await tried(lambda: scenario(*pair)) is None


async def test_a_release_that_reads_something_else_is_noticed(pair) -> None:
    older, newer = pair
    found = await tried(lambda: versions.log(older, altered(newer, LIAR)))
    assert found is not None
    assert "Disagreement: a log is ['something else']" in found


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_release_of_another_wire_is_refused_with_both_ranges(pair, *, is_first) -> None:
    older, newer = pair
    older = altered(older, OTHER_WIRE)
    first, second = (older, newer) if is_first else (newer, older)
    assert await tried(lambda: versions.refusal(first, second)) is None
    assert "no common version" in str(await tried(lambda: versions.store(first, second)))


async def test_a_release_that_agrees_is_no_refusal(pair) -> None:
    found = await tried(lambda: versions.refusal(*pair))
    assert found is not None
    assert found.startswith("Disagreement")


async def test_a_command_that_fails_says_what_it_said(pair) -> None:
    with pytest.raises(versions.Disagreement, match="there is no command"):
        await pair[0].run("sing")
    (told,) = await pair[0].run("sing", is_refused=True)
    assert json.loads(json.dumps(told))["error"] == "usage"
