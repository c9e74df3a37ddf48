"""``peermesh check``: histories in, verdicts and exit codes out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from peermesh.cli.application import run
from peermesh.cli.check import PROMISES
from peermesh.cli.exits import ExitCode
from peermesh.testing.history import History
from peermesh.testing.history_files import write_history
from peermesh.testing.observations import Delivered


def written(folder: Path, *, is_good: bool, at: float = 0.0, name: str = "one") -> str:
    history = History()
    history.end(history.begin(name, "put", name, 1, at=at), at=at + 1)
    history.end(history.begin(name, "get", name, at=at + 2), 1 if is_good else 2, at=at + 3)
    path = folder / f"{name}.jsonl"
    write_history(history, path)
    return str(path)


def test_a_promise_that_held_ends_with_code_0(tmp_path, capsys):
    path = written(tmp_path, is_good=True)
    code = run(["check", path, "--promise", "linearizable", "--promise", "monotonic"])
    assert code == ExitCode.DONE
    assert capsys.readouterr().out.splitlines() == [
        "linearizable: held: 2 operations fit in one order",
        "monotonic: held: 0 positions in 0 sequences never go back",
    ]


def test_a_broken_one_ends_with_code_1_and_shows_the_witness(tmp_path, capsys):
    path = written(tmp_path, is_good=False)
    assert run(["check", path, "--promise", "linearizable"]) == ExitCode.FAILED
    shown = capsys.readouterr()
    assert "#2 one: get('one') -> 2" in shown.out
    assert "not kept, or not decided: linearizable" in shown.err


def test_verdicts_come_as_json(tmp_path, capsys):
    path = written(tmp_path, is_good=False)
    assert run(["check", path, "--promise", "linearizable", "--json"]) == ExitCode.FAILED
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["finding"] == "broken"
    assert set(verdict) == {"v", "promise", "finding", "text", "witness"}
    assert len(verdict["witness"]) == 1


def test_histories_are_merged(tmp_path, capsys):
    paths = [written(tmp_path, is_good=True, at=at, name=f"h{at}") for at in (0, 0.5)]
    assert run(["check", *paths, "--promise", "linearizable"]) == ExitCode.DONE
    assert "4 operations" in capsys.readouterr().out


def test_nodes_are_named_where_a_promise_needs_them(tmp_path, capsys):
    history = History()
    history.end(history.begin("s", "send", "m", at=0), at=0)
    history.see("c", Delivered("m"), at=0)
    path = tmp_path / "history.jsonl"
    write_history(history, path)
    arguments = ["check", str(path), "--promise", "exactly_once"]
    assert run(arguments) == ExitCode.USAGE
    assert "--node NAME" in capsys.readouterr().err
    assert run([*arguments, "--node", "c"]) == ExitCode.DONE
    assert run([*arguments, "--node", "c", "--node", "d"]) == ExitCode.FAILED


@pytest.mark.parametrize("promise", [each for each in PROMISES if each != "linearizable"])
def test_every_promise_can_be_asked_for(tmp_path, capsys, promise):
    path = written(tmp_path, is_good=True)
    asked = ["--promise", promise, "--node", "nobody"]
    assert run(["check", path, *asked]) == ExitCode.DONE, capsys.readouterr().err


@pytest.mark.parametrize("text", ["nonsense\n", '{"at": 0}\n', "\udcff\n"])
def test_what_is_no_history_is_an_error(tmp_path, capsys, text):
    path = tmp_path / "history.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert run(["check", str(path), "--promise", "watch"]) == ExitCode.FAILED
    assert "no history" in capsys.readouterr().err


def test_operations_that_linearizable_does_not_know_are_an_error(tmp_path, capsys):
    history = History()
    history.begin("p", "sing", "k", at=0)
    path = tmp_path / "history.jsonl"
    write_history(history, path)
    assert run(["check", str(path), "--promise", "linearizable"]) == ExitCode.FAILED
    assert "this model knows put, get" in capsys.readouterr().err
