"""Logs that groups keep, from the command line: nodes that vote, and one of them killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from peermesh.blocking import Endpoint
from peermesh.cli.application import run
from peermesh.cli.exits import ExitCode
from peermesh.testing.time_limits import limit
from tests.peermesh.test_cli_groups import start, tell

REPLICA = ("log", "replica", "trips")


@pytest.fixture
def nodes(monkeypatch, tmp_path: Path) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Three nodes whose replicas of ``trips`` vote, in files, and one that has none."""
    with ExitStack() as stack:
        found, ports = {}, []
        for name in "abc":
            options = ("--voters", "a,b,c", "--path", str(tmp_path / f"{name}.db"))
            found[name], port = start(stack, name, ports, *options, words=REPLICA)
            ports.append(port)
        _, port = start(stack, "d", ports)
        monkeypatch.setenv("PEERMESH_PEER", f"127.0.0.1:{port}")
        yield found


def members(capsys) -> dict[str, dict[str, object]]:
    lines = tell(capsys, "log", "members", "trips", "--json").splitlines()
    return {found["name"]: found for found in map(json.loads, lines)}


def test_the_log_of_a_group_goes_on_without_its_leader(capsys, nodes) -> None:
    assert tell(capsys, "log", "append", "trips", "first") == "0 0\n"
    found = members(capsys)
    assert set(found) == {"a", "b", "c"}
    assert all(each["voter"] for each in found.values())
    (leader,) = (name for name, each in found.items() if each["leader"])
    assert tell(capsys, "log", "watch", "trips", "--consumer", "w", "--earliest", "--count", "1")
    heir = next(name for name in found if name != leader)
    tell(capsys, "log", "transfer", "trips", heir)
    assert members(capsys)[heir]["leader"]
    leader = heir
    nodes[leader].kill()
    nodes[leader].wait()
    assert tell(capsys, "log", "append", "trips", "second") == "0 1\n"
    assert tell(capsys, "log", "read", "trips") == '0 "first"\n1 "second"\n'
    assert tell(capsys, "log", "offsets", "trips") == "0 0 2\n"
    assert tell(capsys, "log", "consumers", "trips") == "1 w\n"
    assert leader not in {name for name, each in members(capsys).items() if each["leader"]}


def test_a_node_leads_the_log_without_the_others_that_are_gone_for_good(capsys, nodes) -> None:
    tell(capsys, "log", "append", "trips", "first")
    for name in "bc":
        nodes[name].kill()
        nodes[name].wait()
    assert tell(capsys, "log", "promote", "trips", "--at", "a", "--force").endswith("leads trips\n")
    assert tell(capsys, "log", "append", "trips", "second") == "0 1\n"


def test_a_log_without_a_majority_says_what_its_nodes_say(capsys, nodes) -> None:
    assert tell(capsys, "log", "append", "trips", "first") == "0 0\n"
    for name in "bc":
        nodes[name].kill()
        nodes[name].wait()
    for words in (("append", "trips", "second"), ("read", "trips"), ("offsets", "trips")):
        assert run(["log", *words, "--wait", "1"]) == ExitCode.TIMEOUT
        err = capsys.readouterr().err
        assert "log trips has no leader after 1 s: a says: 2 of 3 voters: b silent " in err
        assert "log keep" not in err


def test_a_log_begins_with_a_number_of_voters(capsys, monkeypatch) -> None:
    with ExitStack() as stack:
        options = ("--voters", "3", "--partitions", "2")
        _, port = start(stack, "a", [], *options, "--found", words=REPLICA)
        start(stack, "b", [port], *options, words=REPLICA)
        monkeypatch.setenv("PEERMESH_PEER", f"127.0.0.1:{port}")
        tell(capsys, "log", "append", "trips", "first", "--partition", "1")
    err = tell(capsys, "log", "replica", "l", "--voters", "a", "--found", code=ExitCode.USAGE)
    assert "--voters 3" in err


def test_a_replica_of_a_log_that_came_later_is_given_a_vote_and_loses_it(
    capsys, monkeypatch
) -> None:
    with Endpoint(name="a") as a, Endpoint(name="late") as late:
        port = a.listen()
        a.attach_log_replica("trips", voters=["a"]).await_leader(limit())
        assert late.peer("127.0.0.1", port)
        late.attach_log_replica("trips").await_leader(limit())
        monkeypatch.setenv("PEERMESH_PEER", str(port))
        tell(capsys, "log", "add", "trips", "late")
        assert members(capsys)["late"]["voter"]
        tell(capsys, "log", "remove", "trips", "late")
        assert not members(capsys)["late"]["voter"]


def test_the_log_of_a_group_keeps_what_its_replicas_are_told(capsys, monkeypatch) -> None:
    with ExitStack() as stack:
        options = ("--voters", "a", "--keep-count", "1", "--max-entries", "5")
        _, port = start(stack, "a", [], *options, words=REPLICA)
        monkeypatch.setenv("PEERMESH_PEER", f"127.0.0.1:{port}")
        with Endpoint() as endpoint:
            assert endpoint.peer("127.0.0.1", port)
            log = endpoint.attach_log_replica("trips")
            log.await_leader(limit())
            while log.statistics().max_entries != 5:
                log.catch_up(limit())
            for number in range(3):
                log.append(number).result(timeout=limit())
            while log.statistics().entries > 1:
                log.catch_up(limit())
        assert tell(capsys, "log", "quota", "trips").startswith("1 of 5 entries, ")
        told = tell(capsys, "log", "quota", "trips", "--max-entries", "6")
        assert told.startswith("1 of 6 entries, ")


def test_a_log_with_a_keeper_has_no_members(capsys, monkeypatch) -> None:
    with Endpoint() as endpoint, endpoint.attach_log("trips"):
        monkeypatch.setenv("PEERMESH_PEER", str(endpoint.listen()))
        err = tell(capsys, "log", "members", "trips", code=ExitCode.FAILED)
        assert "has a keeper, and no group" in err


def test_the_logs_of_groups_are_known(capsys) -> None:
    with Endpoint(name="a") as a, Endpoint() as b:
        log = a.attach_log_replica("trips", voters=["a"])
        log.await_leader(limit())
        assert b.peer("127.0.0.1", a.listen())
        assert b.known_log_groups() == b.known_logs() == ("trips",)
        assert b.known_groups() == ()
