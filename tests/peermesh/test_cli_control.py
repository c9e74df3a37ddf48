"""Commands that ask one node: to describe itself, and to lead, with and without the right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from peermesh import EndpointId
from peermesh.blocking import Endpoint
from peermesh.cli.exits import ExitCode
from tests.peermesh.commands import run
from tests.peermesh.test_cli import find_event, node

ROLES = """
[names]
"core-*" = "core"
"app-*" = "app"
[roles.core]
relay = true
publish = [""]
subscribe = [""]
lead = ["*"]
observe = true
[roles.app]
publish = [""]
subscribe = [""]
"""


@pytest.fixture
def certified(tmp_path: Path) -> dict[str, tuple[str, ...]]:
    """Give what the command line needs to be each of some names."""
    authority, roles = str(tmp_path / "ca"), tmp_path / "roles.toml"
    assert run("certs", "init", "-d", authority).returncode == 0
    roles.write_text(ROLES)
    found = {}
    for name in ("core-1", "core-2", "app-1"):
        assert run("certs", "issue", name, "-d", authority).returncode == 0
        certificate = ("--certificate", f"{authority}/{name}.pem")
        key = ("--certificate-key", f"{authority}/{name}.key")
        rest = ("--authority", f"{authority}/authority.pem", "--roles", str(roles))
        found[name] = (*certificate, *key, *rest)
    return found


def store_of(address: str, name: str, way_in: tuple[str, ...]) -> dict[str, object]:
    described = run("describe", "--json", "--peer", address, *way_in)
    assert described.returncode == 0, described.stderr
    (found,) = (each for each in json.loads(described.stdout)["stores"] if each["name"] == name)
    return found


def test_a_certificate_that_may_only_publish_deposes_no_master(tmp_path, certified) -> None:
    file = tmp_path / "accounts.db"
    core = certified["core-1"]
    with node("--master", f"accounts:{file}", *core) as (_, address):
        clone = ("--clone", "accounts", "--peer", address, *certified["core-2"])
        with node(*clone) as (_, clone_address):
            at = ("--peer", clone_address)
            put = run("store", "put", "accounts", "a", "1", "--peer", address, *core)
            assert put.returncode == 0, put.stderr
            # What was once enough: a message on a topic that nothing listens on any more.
            message = json.dumps(["accounts", True, "app/answer"])
            run("pub", "peermesh/control/promote", message, *at, *certified["app-1"])
            asked = run("store", "promote", "accounts", "--force", *at, *certified["app-1"])
            assert asked.returncode == ExitCode.FAILED
            assert "'app-1' (role app) may not promote" in asked.stderr
            assert "'accounts' in lead" in asked.stderr
            refused = run("describe", *at, *certified["app-1"])
            assert refused.returncode == ExitCode.FAILED
            assert "observe = true" in refused.stderr
            assert store_of(address, "accounts", core)["role"] == "master"
            assert store_of(clone_address, "accounts", core)["role"] == "clone"
            alive = run("store", "promote", "accounts", *at, *core)
            assert "its master is alive" in alive.stderr
            forced = run("store", "promote", "accounts", "--force", *at, *core)
            assert "leads accounts in term 1, from revision 1" in forced.stdout
            assert "it is in memory, and ends with this node" in forced.stdout
            # One description is shared by all who ask within a moment.
            while store_of(clone_address, "accounts", core)["role"] != "master":
                continue


@pytest.fixture(scope="module")
def mesh() -> Iterator[tuple[str, Endpoint]]:
    with Endpoint() as endpoint, endpoint.attach_master("cities\x1b[2J"):
        yield f"127.0.0.1:{endpoint.listen()}", endpoint


def test_an_endpoint_is_described_for_people_and_programs(mesh) -> None:
    address, endpoint = mesh
    described = run("describe", "--peer", address)
    assert described.returncode == 0, described.stderr
    who = f"id: {endpoint.node_id()}\nname: {endpoint.name_of(endpoint)}\n"
    assert described.stdout.startswith(f"{who}certificate_name: -\nversion: ")
    assert "stores: 1\n" in described.stdout
    assert "role master" in described.stdout
    assert "\x1b" not in described.stdout
    found = json.loads(run("describe", str(endpoint.node_id()), "--json", "--peer", address).stdout)
    assert (found["v"], found["id"]) == (1, str(endpoint.node_id()))
    assert endpoint.describe().to_dict().keys() == found.keys()


def test_an_endpoint_that_is_not_there_or_does_not_answer_is_told(mesh) -> None:
    address, _ = mesh
    nobody = str(EndpointId(b"\1" * 16))
    missing = run("describe", nobody, "--peer", address, "--wait", "0.2")
    assert missing.returncode == ExitCode.TIMEOUT
    assert f"no node {nobody}" in missing.stderr
    with Endpoint(admin=False) as mute:
        port = mute.listen()
        silent = run("describe", "--peer", f"127.0.0.1:{port}", "--wait", "0.5")
    assert silent.returncode == ExitCode.TIMEOUT
    assert "did not answer" in silent.stderr


def described(*arguments: str) -> str:
    done = run("describe", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["id"]


def test_a_node_is_found_by_its_name_its_id_or_the_first_digits_of_that() -> None:
    with node("--name", "store-a") as (process, address), Endpoint(name="store-b") as far:
        at = ("--peer", address)
        assert far.peer("127.0.0.1", address.partition(":")[2])
        near = far.peers()[0].node_id
        assert far.name_of(near) == "store-a"
        event = find_event(process, "peer_added")
        assert (event["name"], event["endpoint"]) == ("store-b", str(far.node_id()))
        for text in ("store-b", str(far.node_id()), far.node_id().hex()[:12]):
            assert described(text, *at) == str(far.node_id())
        assert described("store-a", *at) == described(*at) == str(near)
        digits = next(n for n in range(4, 33) if far.node_id().hex()[:n] != near.hex()[:n])
        assert described(far.node_id().hex()[:digits].upper(), *at) == str(far.node_id())
        missing = run("describe", "store-c", "--json", *at)
        assert missing.returncode == ExitCode.FAILED
        told = json.loads(missing.stderr)
        assert told["error"] == "no_such_node"
        assert "no node store-c in this mesh; nodes: " in told["message"]
        assert f"store-b ({far.node_id()})" in told["message"]
        short = run("describe", far.node_id().hex()[:3], *at)
        assert "no node" in short.stderr


def test_a_name_of_two_nodes_is_refused_with_both_of_them() -> None:
    with Endpoint(name="store-a") as one, Endpoint(name="store-a") as two:
        at = ("--peer", f"127.0.0.1:{one.listen()}")
        assert two.peer("127.0.0.1", at[1].partition(":")[2])
        for command in (("describe", "store-a"), ("store", "promote", "x", "--at", "store-a")):
            refused = run(*command, "--json", *at)
            assert refused.returncode == ExitCode.FAILED
            told = json.loads(refused.stderr)
            assert told["error"] == "ambiguous_node"
            assert told["hint"] == "give the id, or more of its digits"
            assert all(f"store-a ({each.node_id()})" in told["message"] for each in (one, two))
        assert described(one.name_of(two), *at) == str(two.node_id())


def test_the_command_s_own_endpoint_is_no_node_that_it_asks() -> None:
    with Endpoint(name="peermesh") as one:
        at = ("--peer", f"127.0.0.1:{one.listen()}")
        assert described("peermesh", *at) == str(one.node_id())


def test_a_bad_name_is_told_before_anything_is_done() -> None:
    failed = run("node", "--listen", "127.0.0.1:0", "--name", "two words")
    assert (failed.returncode, failed.stdout) == (ExitCode.USAGE, "")
    assert "name cannot be 'two words'; give up to 64 printable bytes" in failed.stderr


@pytest.mark.parametrize("command", ["node", "sub", "log keep", "log follow", "broker modules"])
def test_commands_that_keep_an_endpoint_take_a_name(command) -> None:
    shown = run(*command.split(), "--help").stdout
    assert "--name NAME" in shown
