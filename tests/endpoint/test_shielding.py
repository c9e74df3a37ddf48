"""No wait is shielded without an end: each has a limit, and says what it waited for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import trio

from endpoint.shielding import shielded

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("wire", "handshake", "net", "channels", "stores", "endpoint", "peermesh")

EXPLAINED = {
    "endpoint/shielding.py": "the limit is an argument",
    "endpoint/tasks.py": "the endpoint's end cancels it, after waits that have limits",
    "peermesh/brokers/edge/broker.py": "the end of the broker cancels it, after waits with limits",
    "peermesh/cli/locking.py": "what has not ended by then is killed after a second at most",
    "peermesh/demo/stage.py": "the end of the play cancels it",
    "peermesh/testing/simulation/threads.py": "it sleeps for two milliseconds at most",
}
"""Files that make a shield of their own, once each, and what ends it."""


def shields(path: Path) -> int:
    """Count what makes a shield: the keyword of a scope, or an assignment to one's attribute."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return sum(
        (isinstance(node, ast.keyword) and node.arg == "shield")
        or (
            isinstance(node, ast.Attribute)
            and node.attr == "shield"
            and isinstance(node.ctx, ast.Store)
        )
        for node in ast.walk(tree)
    )


def test_every_shield_has_a_limit_or_an_explanation() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): count for path in files if (count := shields(path))}
    assert found == dict.fromkeys(EXPLAINED, 1)


async def test_what_is_shielded_goes_on_when_its_task_is_cancelled() -> None:
    has_gone_on = False
    with trio.CancelScope() as scope:
        scope.cancel()
        with shielded("a step", 20.0):
            await trio.lowlevel.checkpoint()
            has_gone_on = True
    assert has_gone_on


async def test_a_shielded_wait_without_an_answer_ends_and_says_what_it_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        with shielded("an answer", 0.001):
            await trio.sleep_forever()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "waited 0.001 s for an answer in vain" in record.getMessage()


async def test_a_shielded_wait_that_ends_in_time_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with shielded("an answer", 20.0):
        await trio.lowlevel.checkpoint()
    assert not caplog.records
