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


@pytest.mark.parametrize("option", ["path", "synchronous", "key_file"])
async def test_an_option_of_files_says_that_a_backend_is_missing(option: str) -> None:
    options = {option: "x"}
    advice = f"s is in memory, and has no option '{option}': give backend=Backend.SQLite, too"
    async with Endpoint(name="a") as endpoint:
        for attach in (endpoint.attach_master, endpoint.attach_log, endpoint.attach_log_clone):
            with pytest.raises(BackendFailure, match=advice):
                await attach("s", **options)
        with pytest.raises(BackendFailure, match=f"store {advice}"):
            await endpoint.attach_replica("s", voters=("a",), **options)
        with pytest.raises(BackendFailure, match="has no option 'pth': leave it out"):
            await endpoint.attach_replica("s", voters=("a",), pth="x")


@pytest.mark.parametrize(
    ("option", "setter"), [("max_entries", "set_quota"), ("keep_count", "set_retention")]
)
async def test_limits_of_a_group_are_no_options_of_a_replica(
    tmp_path: Path, option: str, setter: str
) -> None:
    options = {option: 3}
    advice = rf"log l: {option} is the group's, .*: call {setter}\({option}=...\) of any replica"
    async with Endpoint(name="a") as endpoint:
        for backend in ({}, {"backend": Backend.SQLite, "path": tmp_path / "l.db"}):
            with pytest.raises(BackendFailure, match=advice):
                await endpoint.attach_log_replica("l", voters=("a",), **backend, **options)
