"""Replica groups from the command line: nodes that vote, and one of them killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from peermesh.blocking import Endpoint
from peermesh.cli.application import run
from peermesh.cli.exits import ExitCode
from peermesh.testing.time_limits import limit
from tests.peermesh.test_cli_stores import started

COMMAND = [sys.executable, "-m", "peermesh"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}
ENVIRONMENT["PEERMESH_CONFIG_DIR"] = "/nonexistent"
NODES = 12
"""Nodes that hold nothing, and are nearer to a command than what holds its store."""

WAIT = ("--wait", str(limit()))


def start(
    stack: ExitStack,
    name: str,
    peers: list[int],
    *more: str,
    words: Sequence[str] = ("node",),
) -> tuple[subprocess.Popen[str], int]:
    """Start a node, or what the words say, and give it with its port."""
    ways = [argument for port in peers for argument in ("--peer", str(port))]
    command = [*COMMAND, *words, "--name", name, "--listen", "0", "--json", *ways, *more]
    process = stack.enter_context(
        subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    )
    stack.callback(process.kill)
    return process, port_of(process.stdout)


def port_of(lines: IO[str] | None) -> int:
    assert lines is not None
    return next(found["port"] for line in lines if "port" in (found := json.loads(line)))


@pytest.fixture
def nodes(monkeypatch, tmp_path: Path) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Three nodes whose replicas of ``cities`` vote, in files, and one that has none."""
    with ExitStack() as stack:
        found, ports = {}, []
        for name in "abc":
            place = f"cities:{tmp_path / name}.db"
            options = ("--replica", place, "--voters", "a,b,c")
            found[name], port = start(stack, name, ports, *options)
            ports.append(port)
        _, port = start(stack, "d", ports)
        monkeypatch.setenv("PEERMESH_PEER", f"127.0.0.1:{port}")
        yield found


def tell(capsys, *arguments: str, code: int = 0) -> str:
    found = run([*arguments, *WAIT])
    out, err = capsys.readouterr()
    assert found == code, err
    return out if code == 0 else err


def removed(capsys, member: str) -> str:
    assert run(["store", "remove", "cities", member, *WAIT]) == 0
    return capsys.readouterr().err


def members(capsys) -> dict[str, dict[str, object]]:
    lines = tell(capsys, "store", "members", "cities", "--json").splitlines()
    return {found["name"]: found for found in map(json.loads, lines)}


def test_a_group_of_nodes_goes_on_without_its_leader(capsys, nodes) -> None:
    assert tell(capsys, "store", "put", "cities", "rome", "3") == "1\n"
    found = members(capsys)
    assert set(found) == {"a", "b", "c"}
    assert all(each["voter"] for each in found.values())
    (leader,) = (name for name, each in found.items() if each["leader"])
    heir = next(name for name in found if name != leader)
    tell(capsys, "store", "transfer", "cities", heir)
    assert members(capsys)[heir]["leader"]
    nodes[heir].kill()
    nodes[heir].wait()
    assert tell(capsys, "store", "increment", "cities", "rome", "4") == "2\n"
    assert tell(capsys, "store", "get", "cities", "rome") == "7\n"
    assert tell(capsys, "store", "watch", "cities", "--count", "1", "--from-revision", "2")
    assert heir not in {name for name, each in members(capsys).items() if each["leader"]}


def test_a_replica_that_came_later_is_given_a_vote_and_loses_it(capsys) -> None:
    with ExitStack() as stack:
        _, port = start(stack, "a", [], "--replica", "cities", "--voters", "a")
        start(stack, "late", [port], "--replica", "cities")
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("PEERMESH_PEER", str(port))
        tell(capsys, "store", "add", "cities", "late")
        found = members(capsys)
        assert {name for name, each in found.items() if each["voter"]} == {"a", "late"}
        assert removed(capsys, "late") == "late votes no more in cities\n"
        assert "mistyped had no vote in cities" in removed(capsys, "mistyped")
        assert "late had no vote in cities" in removed(capsys, "late")
        found = members(capsys)
        assert {name for name, each in found.items() if each["voter"]} == {"a"}
        human = tell(capsys, "store", "members", "cities")
        assert "a leader, level\n" in human
        assert found["late"]["removed"]
        assert "late removed, " in human


def test_a_group_begins_with_a_number_of_voters(capsys) -> None:
    with ExitStack() as stack:
        options = ("--replica", "cities", "--voters", "2")
        _, port = start(stack, "a", [], *options, "--found")
        start(stack, "b", [port], *options)
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("PEERMESH_PEER", str(port))
        tell(capsys, "store", "put", "cities", "rome", "3")
        found = members(capsys)
        assert {name for name, each in found.items() if each["voter"]} >= {"a"}
        assert found["a"]["leader"]
        assert "b" in found


def test_a_master_in_a_file_becomes_a_group_under_a_name(capsys, tmp_path) -> None:
    place = f"cities:{tmp_path / 'cities.db'}"
    with started("node", "--master", place, "--listen", "0", "--json") as process:
        port = port_of(process.stdout)
        tell(capsys, "store", "put", "cities", "rome", "3", "--peer", str(port))
        process.terminate()
        process.wait(limit())
    voters = ("--voters", "a,b,c")
    err = tell(
        capsys,
        "node",
        "--name",
        "b",
        "--replica",
        place,
        *voters,
        "--listen",
        "0",
        code=ExitCode.FAILED,
    )
    assert "give it to the first of the voters, or to the one with --found" in err
    with ExitStack() as stack:
        _, port = start(stack, "a", [], "--replica", place, *voters)
        start(stack, "b", [port], "--replica", f"cities:{tmp_path / 'b.db'}", *voters)
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("PEERMESH_PEER", str(port))
        assert tell(capsys, "store", "get", "cities", "rome") == "3\n"
        assert members(capsys)["a"]["leader"]


def test_a_node_says_which_voters_it_waits_for() -> None:
    with ExitStack() as stack:
        node, port = start(stack, "a", [], "--replica", "cities", "--voters", "a,b,typo")
        start(stack, "b", [port], "--replica", "cities", "--voters", "a,b,typo")
        assert node.stdout is not None
        found = (json.loads(line) for line in node.stdout)
        told = next(each for each in found if each["event"] == "replica_unled")
        assert told["reason"].startswith("store cities: it has no leader: no answer of typo")


def test_what_is_for_groups_alone_says_so_and_the_other_way_round(capsys, monkeypatch) -> None:
    with Endpoint() as endpoint, endpoint.attach_master("cities"):
        monkeypatch.setenv("PEERMESH_PEER", str(endpoint.listen()))
        err = tell(capsys, "store", "members", "cities", code=ExitCode.FAILED)
        assert "has a master, and no group" in err
    with Endpoint(name="a") as endpoint, endpoint.attach_replica("cities", voters=["a"]) as store:
        store.await_leader(timeout=limit())
        monkeypatch.setenv("PEERMESH_PEER", str(endpoint.listen()))
        assert endpoint.known_stores() == ()
        lines = tell(capsys, "store", "verify", "cities").splitlines()
        assert [line.split()[-1] for line in lines] == ["master", "equal"]
        with Endpoint() as other:
            assert other.peer("127.0.0.1", endpoint.listen())
            assert other.known_groups() == other.known_stores() == ("cities",)
    err = tell(capsys, "node", "--voters", "a,b", "--listen", "0", code=ExitCode.USAGE)
    assert "add --replica NAME" in err
    err = tell(capsys, "node", "--replica", "s", "--voters", "a,b", "--found", code=ExitCode.USAGE)
    assert "--voters 3" in err
    for names, told in (("a,b,a", "names a twice"), ("a,,b", "has an empty name")):
        err = tell(capsys, "node", "--replica", "s", "--voters", names, code=ExitCode.USAGE)
        assert told in err
    for count in ("0", "-1", "32", "99999999999999"):
        err = tell(capsys, "node", "--replica", "s", "--voters", count, code=ExitCode.USAGE)
        assert f"--voters {count}: a group has 1 to 31 voters" in err


@pytest.mark.parametrize("words", [("get", "cities", "rome"), ("members", "cities")])
def test_without_a_majority_commands_say_which_voters_are_silent(capsys, nodes, words) -> None:
    tell(capsys, "store", "put", "cities", "rome", "3")
    for name in "bc":
        nodes[name].kill()
        nodes[name].wait()
    events = (json.loads(line)["event"] for line in nodes["a"].stdout)
    assert "store_master_lost" in events  # a leader has to notice first
    assert run(["store", *words, "--wait", "5"]) == ExitCode.TIMEOUT
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(
        "peermesh: store cities has no leader after 5 s: a says: 2 of 3 voters: "
    )
    assert "b silent" in last
    assert "c silent" in last
    assert "promote NAME --force" in last


def test_only_nodes_that_hold_a_group_are_asked_which_voters_are_silent(
    capsys, monkeypatch
) -> None:
    with ExitStack() as stack:
        near = stack.enter_context(Endpoint())
        port = near.listen()
        for _ in range(NODES):
            assert stack.enter_context(Endpoint()).peer("127.0.0.1", port)
        holder = stack.enter_context(Endpoint(name="a"))
        between = stack.enter_context(Endpoint())
        assert between.peer("127.0.0.1", port)
        assert holder.peer("127.0.0.1", between.listen())
        holder.attach_replica("cities", voters=("a", "b", "c"))
        assert near.await_peer(holder.node_id(), timeout=limit())
        monkeypatch.setenv("PEERMESH_PEER", f"127.0.0.1:{port}")
        assert run(["store", "get", "cities", "rome", "--wait", "2"]) == ExitCode.TIMEOUT
    last = capsys.readouterr().err.splitlines()[-1]
    assert "after 2 s: a says: " in last
    assert "b" in last.partition("a says")[2]


def test_a_node_leads_without_the_others_that_are_gone_for_good(capsys, nodes) -> None:
    tell(capsys, "store", "put", "cities", "rome", "3")
    found = members(capsys)
    stays = min(found)
    for name in found.keys() - {stays}:
        nodes[name].kill()
        nodes[name].wait()
    # A leader has to notice first. On a busy machine the node told of a slow beginning, too.
    events = map(json.loads, nodes[stays].stdout)
    unled = (each["reason"] for each in events if each["event"] == "replica_unled")
    assert any("2 of 3 voters" in each for each in unled)
    assert run(["store", "promote", "cities", "--at", stays]) == ExitCode.FAILED
    err = capsys.readouterr().err
    assert "2 of 3 voters: " in err
    assert '"promote NAME --force"' in err
    said = tell(capsys, "store", "promote", "cities", "--at", stays, "--force")
    assert said.startswith(f"node {stays} (")
    assert said.endswith(") leads cities\n")
    tell(capsys, "store", "put", "cities", "oslo", "1")
    assert set(members(capsys)) == {stays}


def test_a_node_is_handed_the_lead_of_a_group(capsys, nodes) -> None:
    (follower, *_) = [name for name, each in members(capsys).items() if not each["leader"]]
    tell(capsys, "store", "promote", "cities", "--at", follower)
    assert members(capsys)[follower]["leader"]
    assert all(each.poll() is None for each in nodes.values())


@pytest.mark.usefixtures("nodes")
def test_a_group_is_dumped_and_loaded_into_another_one(capsys, tmp_path) -> None:
    path = str(tmp_path / "cities.dump")
    tell(capsys, "store", "put", "cities", "rome", "3", "--expiry", "3600")
    tell(capsys, "store", "put", "cities", "oslo", "1")
    tell(capsys, "store", "dump", "cities", path)
    with Endpoint(name="x") as endpoint, endpoint.attach_replica("copy", voters=["x"]) as store:
        store.await_leader(timeout=limit())
        at = ("--peer", str(endpoint.listen()))
        tell(capsys, "store", "load", "copy", path, *at)
        assert store.get("oslo") == 1
        entry = store.entry("rome")
        assert (entry.value, entry.expires_at is not None) == (3, True)
        tell(capsys, "store", "load", "copy", path, *at, code=ExitCode.FAILED)
    tell(capsys, "store", "load", "cities", path, "--over")


@pytest.mark.usefixtures("nodes")
def test_the_quota_of_a_group_is_changed_one_limit_at_a_time(capsys) -> None:
    tell(capsys, "store", "put", "cities", "rome", "3")
    tell(capsys, "store", "quota", "cities", "--max-entries", "1")
    told = tell(capsys, "store", "quota", "cities", "--max-bytes", "1MiB")
    assert told.startswith("1 of 1 entries, ")
    assert told.endswith(" of 1,048,576 bytes\n")
    err = tell(capsys, "store", "put", "cities", "oslo", "1", code=ExitCode.FAILED)
    assert '"peermesh store quota NAME"' in err
    assert "set_quota" not in err
    found = json.loads(tell(capsys, "store", "quota", "cities", "--max-entries", "0", "--json"))
    assert (found["entries"], found["max_entries"], found["max_bytes"]) == (1, None, 1 << 20)
    tell(capsys, "store", "put", "cities", "oslo", "1")


HELD = ("store", "lock", "cities", "it", "--ttl", "2", *WAIT)


def hold(capfd, *words: str, code: int = 0, options: tuple[str, ...] = ()) -> str:
    """Run words while a lock is held."""
    assert run([*HELD, *options, "--", *words]) == code
    out, err = capfd.readouterr()
    return out if code == 0 else err


def test_a_command_runs_while_its_lock_is_held(capfd, nodes) -> None:
    script = 'import os; print("held", os.environ["LOCK_TOKEN"])'
    first, second = (hold(capfd, sys.executable, "-c", script).split() for _ in range(2))
    assert first[0] == "held"
    assert list(map(int, second[1:])) > list(map(int, first[1:]))
    hold(capfd, sys.executable, "-c", "raise SystemExit(7)", code=7)
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    hold(capfd, sys.executable, "-c", killed, code=137)
    missing = hold(capfd, "no-such-program", code=ExitCode.MISSING)
    assert "no-such-program cannot be run: No such file" in missing
    hold(capfd, *COMMAND, *HELD, "--timeout", "0", "true", code=ExitCode.TIMEOUT)


def test_a_lock_of_a_store_with_one_master_is_held_as_well(capfd, monkeypatch) -> None:
    with Endpoint() as endpoint, endpoint.attach_master("cities") as store:
        monkeypatch.setenv("PEERMESH_PEER", str(endpoint.listen()))
        assert hold(capfd, sys.executable, "-c", 'print("held")') == "held\n"
        with store.lock("it"):
            late = hold(capfd, "true", options=("--timeout", "0"), code=ExitCode.TIMEOUT)
            assert "lock it of store cities: not within 0 s; --timeout SECONDS waits longer" in late


def test_a_command_whose_lock_is_lost_is_ended(capsys, nodes) -> None:
    words = (sys.executable, "-c", 'import signal; print("held", flush=True); signal.pause()')
    with subprocess.Popen(
        [*COMMAND, *HELD, "--", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        (key,) = map(json.loads, tell(capsys, "store", "keys", "cities", "--json").splitlines())
        tell(capsys, "store", "delete", "cities", json.dumps(key["key"]))
        _, told = process.communicate(timeout=limit())
    assert process.returncode == ExitCode.FAILED
    assert "the command was ended: " in told
    assert "was erased" in told


def test_what_a_command_started_is_ended_before_its_lock_is_released(capsys, nodes) -> None:
    """A shell dies at once of what ends it, and what it runs goes on."""
    script = (
        f'{sys.executable} -c "import os, signal; print(os.getpid(), flush=True); signal.pause()"'
    )
    with subprocess.Popen(
        [*COMMAND, *HELD, "--", "sh", "-c", f"{script}; true"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        started = int(process.stdout.readline())
        assert is_running(started)
        process.terminate()
        process.wait(limit())
    assert not is_running(started)


def is_running(number: int) -> bool:
    """Tell whether a process runs; one that has ended may wait for a parent that takes note."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
