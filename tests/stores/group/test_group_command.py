"""The command that runs many seeds: it goes on where it stopped, and tells what failed."""

from __future__ import annotations

import json

import pytest

from tests.stores.group.__main__ import main


@pytest.fixture
def run(tmp_path):
    """Give a way to run two seeds with a file of what is done."""
    state = tmp_path / "state"
    arguments = ["--seeds", "2", "--jobs", "1", "--state", str(state)]
    return state, lambda *more: main([*arguments, *more])


def test_a_run_goes_on_where_it_stopped(run, capsys):
    state, command = run
    assert command() == 0
    (line,) = state.read_text("utf-8").splitlines()
    done = json.loads(line)
    assert (done["first"], done["count"], done["failures"]) == (0, 2, {})
    state.write_text(json.dumps({**done, "failures": {"1": "it was so"}}) + "\n", "utf-8")
    assert command() == 1
    assert "seed 1: it was so" in capsys.readouterr().out
    assert len(state.read_text("utf-8").splitlines()) == 1


def test_what_is_done_with_a_rule_off_is_not_done_with_it_on(run):
    state, command = run
    command("--off", "no_log_check")
    command()
    entries = [json.loads(line) for line in state.read_text("utf-8").splitlines()]
    assert [entry["off"] for entry in entries] == ["no_log_check", None]


def test_what_other_code_has_done_is_done_again(run, capsys):
    state, command = run
    command()
    done = json.loads(state.read_text("utf-8"))
    state.write_text(json.dumps({**done, "code": "before"}) + "\n", "utf-8")
    assert command() == 0
    assert "2 seeds were played with other code" in capsys.readouterr().err
    assert len(state.read_text("utf-8").splitlines()) == 2


def test_a_rule_that_does_not_exist_is_refused(run):
    _, command = run
    with pytest.raises(SystemExit):
        command("--off", "nothing")
