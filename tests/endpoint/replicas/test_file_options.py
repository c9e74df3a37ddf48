"""Options of a file that has other names or values than there are, told with what there is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from endpoint.endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from wire.errors import BackendFailure


@pytest.mark.parametrize("option", ["journal_size", "Path"])
async def test_an_unknown_option_is_told_with_those_that_there_are(
    tmp_path: Path, option: str
) -> None:
    options = {"path": tmp_path / "s.db", option: "x"}
    async with Endpoint() as endpoint:
        with pytest.raises(BackendFailure, match=f"no option '{option}'; there are") as found:
            await endpoint.attach_master("s", Backend.SQLite, **options)
        assert "synchronous" in str(found.value)
        assert "__init__" not in str(found.value)
        with pytest.raises(BackendFailure, match=f"no option '{option}'; there are"):
            await endpoint.attach_log("l", (), 1, Backend.SQLite, **options)


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("journal_mode", "which is Broker's WAL: leave it out"),
        ("failure_mode", "which is Broker's FAIL: leave it out"),
        ("integrity_check", "it is is_integrity_checked=True here"),
    ],
)
async def test_an_option_of_broker_is_refused_with_what_stands_for_it(
    tmp_path: Path, option: str, advice: str
) -> None:
    options = {"path": tmp_path / "s.db", option: "x"}
    async with Endpoint() as endpoint:
        with pytest.raises(BackendFailure, match=advice):
            await endpoint.attach_master("s", Backend.SQLite, **options)
        with pytest.raises(BackendFailure, match=advice):
            await endpoint.attach_log("l", (), 1, Backend.SQLite, **options)


@pytest.mark.parametrize(
    ("option", "value", "advice"),
    [
        ("synchronous", "full", "synchronous='full': it is one of OFF, NORMAL, FULL, EXTRA"),
        ("synchronous", 2, "synchronous=2: it is one of OFF, NORMAL, FULL, EXTRA"),
        ("is_integrity_checked", "no", "is_integrity_checked='no': it is True or False"),
        ("upgrade", 1, "upgrade=1: it is True or False"),
    ],
)
async def test_a_value_that_an_option_cannot_have_is_refused_before_there_is_a_file(
    tmp_path: Path, option: str, value: object, advice: str
) -> None:
    options = {"path": tmp_path / "s.db", option: value}
    async with Endpoint() as endpoint:
        with pytest.raises(BackendFailure, match=advice):
            await endpoint.attach_master("s", Backend.SQLite, **options)
        with pytest.raises(BackendFailure, match=advice):
            await endpoint.attach_log("l", (), 1, Backend.SQLite, **options)
    assert os.listdir(tmp_path) == []
