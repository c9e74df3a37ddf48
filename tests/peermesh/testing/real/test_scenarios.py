"""Real faults, a few rounds of each; ``python -m peermesh.testing.real`` runs more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import trio

from peermesh.testing.faults import Unsupported
from peermesh.testing.real import __main__ as program
from peermesh.testing.real.fleet import Fleet, Violation, open_fleet
from peermesh.testing.real.scenarios import SCENARIOS, Run, Scenario, Tally

ROOT = Path(__file__).parent.parent.parent.parent.parent


@pytest.mark.parametrize("name", SCENARIOS)
async def test_nothing_acknowledged_is_lost(name, tmp_path):
    scenario, tally, rounds = SCENARIOS[name], Tally(), []
    run = Run(scenario.rounds_few, Random(name), tmp_path, tally, lambda each: rounds.append(each))
    try:
        await scenario.run(run)
    except Unsupported as error:
        pytest.skip(str(error))
    assert tally.rounds == len(rounds) == scenario.rounds_few
    assert tally.acknowledged > 0
    assert (tally.refused > 0) == (name in ("sync", "disk"))


# The look at what is left, on what we know.


def fleet_with(acknowledged, unsure):
    fleet = Fleet(None, {})
    fleet.record.acknowledged.update(acknowledged)
    fleet.record.unsure.update(unsure)
    return fleet


@pytest.mark.parametrize("table", [{"a": "1"}, {"a": "1", "b": "2"}])
def test_what_nobody_knew_of_may_be_there_or_not(table):
    fleet_with({"a": "1"}, {"b": "2"}).check_table("x", table)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({}, "a was acknowledged with '1'; x has None"),
        ({"a": "2"}, "a was acknowledged with '1'; x has '2'"),
        ({"a": "1", "b": "3"}, "x has b, which nobody"),
        ({"a": "1", "c": "3"}, "x has c, which nobody"),
    ],
)
def test_what_is_lost_changed_or_invented_is_a_violation(table, text):
    with pytest.raises(Violation, match=text):
        fleet_with({"a": "1"}, {"b": "2"}).check_table("x", table)


async def test_a_loss_in_a_real_fleet_is_found(tmp_path):
    async with open_fleet(tmp_path / "store.db") as fleet:
        assert await fleet.put("b") is None
        await fleet.check()
        fleet.record.acknowledged["lost"] = "1"
        with pytest.raises(Violation, match="lost was acknowledged with '1'; a has None"):
            await fleet.check()


# The program.


def scenario_of(error=None):
    async def run(run):
        await trio.lowlevel.checkpoint()
        if error is not None:
            raise error

    return Scenario(run, 1)


@pytest.mark.parametrize(
    ("error", "verdict", "code"),
    [
        (None, "held", 0),
        (Unsupported("it", "this", "no root"), "skipped", 0),
        (Violation("lost"), "broken", 1),
    ],
)
def test_the_verdict_is_a_line_of_json_and_the_exit_code(monkeypatch, capsys, error, verdict, code):
    monkeypatch.setitem(SCENARIOS, "mine", scenario_of(error))
    assert program.main(["mine", "--seed", "7"]) == code
    line = json.loads(capsys.readouterr().out)
    assert (line["scenario"], line["verdict"], line["seed"]) == ("mine", verdict, 7)
    assert line["reason"] == (None if error is None else str(error))


@pytest.mark.parametrize(
    ("arguments", "text"), [(["coffee"], "there is no coffee"), (["--rounds", "0"], "at least 1")]
)
def test_the_program_given_wrongly_says_so(capsys, arguments, text):
    with pytest.raises(SystemExit):
        program.main(arguments)
    assert text in capsys.readouterr().err


def test_the_program_explains_itself():
    command = [sys.executable, "-m", "peermesh.testing.real", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert all(f"{name} " in shown.stdout for name in SCENARIOS)
    assert shown.stderr == ""
