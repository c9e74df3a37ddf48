"""Each test of stores runs twice: with today's masters and clones, and with groups of one."""

from __future__ import annotations

import pytest

from endpoint import Endpoint
from tests.endpoint.replicas.bodies import single_attachments

TODAY, GROUP = "today", "group"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave those to today's body that are about what is its own."""
    is_todays = metafunc.definition.get_closest_marker("today") is not None
    metafunc.fixturenames.append("body")
    metafunc.parametrize("body", [TODAY] if is_todays else [TODAY, GROUP], indirect=True)


@pytest.fixture
def body(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Use one of the two bodies, and name it."""
    if request.param == GROUP:
        monkeypatch.setattr(Endpoint, "_stores", single_attachments)
    return str(request.param)
