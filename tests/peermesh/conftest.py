"""What tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from peermesh.cli.application import run


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Run a command in this process, which has to exit with ``code``; give what it writes."""

    def told_by(*arguments: str, code: int = 0) -> tuple[str, str]:
        found = run(list(arguments))
        out, err = capsys.readouterr()
        assert found == code, err
        return out, err

    return told_by
