"""The comparison of a benchmark with an older checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import against


def test_a_tree_is_compared_with_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["pubsub", "--match", "publish 10 KB", "--rounds", "1", "--quick"]
    monkeypatch.setattr("sys.argv", ["against", str(against.HERE), *arguments])
    assert against.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("publish 10 KB") for line in lines)
    ratio, spread = next(line for line in lines if " per second " in line).split()[-2:]
    assert float(ratio) > 0
    assert spread == f"({ratio}..{ratio})"


def test_what_is_no_checkout_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        against.parse([str(tmp_path), "pubsub"])
    assert "is no checkout of peermesh" in capsys.readouterr().err
