"""Where commands find the mesh: --peer, contexts, variables; and what an endpoint ignores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handshake.secret import ClusterSecret
from handshake.ticket import JoinTicket
from peermesh import Endpoint, blocking
from peermesh.cli import context_file
from peermesh.cli.application import run
from peermesh.cli.context_file import Context, Contexts, save
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import take_mesh
from peermesh.cli.place import find_place

SECRET = ClusterSecret(bytes(range(20)))
NOTHING = {
    "secret_file": None, "certificate": None, "certificate_key": None, "authority": None,
    "allow_plain": False, "settings": None, "roles": None, "sign": None, "wait": None,
}  # fmt: skip


@pytest.fixture(autouse=True)
def file(monkeypatch, tmp_path) -> Path:
    for name in ("PEER", "CONTEXT", "SECRET"):
        monkeypatch.delenv(f"PEERMESH_{name}", raising=False)
    monkeypatch.setenv("PEERMESH_CONFIG_DIR", str(tmp_path / "settings"))
    return tmp_path / "settings" / "contexts.json"


def told(capsys, *arguments: object, code: int = 0) -> str:
    assert run(list(map(str, arguments))) == code
    found = capsys.readouterr()
    return found.err if code else found.out


def test_contexts_are_added_used_listed_and_removed(capsys, file) -> None:
    assert told(capsys, "context", "ls") == ""
    assert told(capsys, "context", "add", "home", "--peer", "7001") == "* home  127.0.0.1:7001\n"
    told(capsys, "context", "add", "work", "-p", "a.example", "-p", "b.example:1", "--allow-plain")
    assert told(capsys, "context", "use", "work").startswith("* work  a.example:9999 b.example:1")
    shown = [json.loads(line) for line in told(capsys, "context", "ls", "--json").splitlines()]
    assert [(each["name"], each["is_current"]) for each in shown] == [
        ("home", False),
        ("work", True),
    ]
    assert shown[1]["allow_plain"] is True
    assert "--replace" in told(capsys, "context", "add", "home", "--peer", "1", code=1)
    told(capsys, "context", "add", "home", "--peer", "2", "--replace")
    told(capsys, "context", "rm", "work")
    assert told(capsys, "context", "ls") == "  home  127.0.0.1:2\n"
    assert "contexts: home" in told(capsys, "context", "use", "wrok", code=2)
    assert "--peer" in told(capsys, "context", "add", "empty", code=2)
    assert "no name" in told(capsys, "context", "add", "a b", "--peer", "1", code=2)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_context_keeps_a_ticket_for_its_owner_and_does_not_show_it(capsys, file) -> None:
    ticket = JoinTicket("127.0.0.1", 7, SECRET).text()
    said = told(capsys, "context", "add", "home", "--peer", ticket)
    said += told(capsys, "context", "ls") + told(capsys, "context", "ls", "--json")
    assert SECRET.text() not in said
    assert "ticket" in said
    assert SECRET.text() in file.read_text()
    file.chmod(0o660)
    assert f"chmod 600 {file}" in told(capsys, "context", "ls", code=1)


BAD_ADDRESS = '{"v": 1, "current": 1, "contexts": {"a": {"peers": ["a b"]}}}'


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"v": 2}', BAD_ADDRESS, "\xff", "[" * 100_000], ids=range(7)
)
def test_a_damaged_file_is_told_and_not_repeated(capsys, file, text) -> None:
    file.parent.mkdir()
    file.touch(mode=0o600)
    file.write_bytes(text.encode("latin-1"))
    said = told(capsys, "context", "ls", code=1)
    assert "no file of contexts" in said
    assert len(said) < 300


def test_the_file_is_where_the_variables_say() -> None:
    assert context_file.path_of({"PEERMESH_CONFIG_DIR": "/a"}) == Path("/a/contexts.json")
    found = context_file.path_of({"XDG_CONFIG_HOME": "/b"})
    assert found == Path("/b/peermesh/contexts.json")
    for environment in ({}, {"XDG_CONFIG_HOME": "relative"}, {"PEERMESH_CONFIG_DIR": ""}):
        found = context_file.path_of(environment)
        assert found == Path.home() / ".config/peermesh/contexts.json"


def test_peers_go_before_contexts_and_what_is_typed_before_its_variable(tmp_path, capsys) -> None:
    here = {"PEERMESH_CONFIG_DIR": str(tmp_path)}
    contexts = {name: Context((("c", port),), {}) for port, name in enumerate(("one", "two"))}
    save(here, Contexts(contexts, "one"))
    typed = (("typed", 1),)
    variable = {"PEERMESH_PEER": "10.0.0.1, 10.0.0.2:7 8"}
    named = {"PEERMESH_CONTEXT": "two"}

    def peers(given=(), context=None, *, uses_current: bool = True, **more: str) -> object:
        return find_place(given, context, here | more, uses_current=uses_current).peers

    assert peers(typed, **variable, **named) == typed
    assert peers(typed, "one") == typed
    assert capsys.readouterr().err == ""
    from_variable = (("10.0.0.1", 9999), ("10.0.0.2", 7), ("127.0.0.1", 8))
    assert peers((), "two", **variable) == from_variable
    assert "PEERMESH_PEER goes before the peers of context two" in capsys.readouterr().err
    assert peers((), "two", PEERMESH_CONTEXT="one") == (("c", 1),)
    assert peers(**variable, **named) == from_variable
    assert peers(**named) == (("c", 1),)
    assert peers() == (("c", 0),)
    assert peers(uses_current=False) == ()
    assert peers(uses_current=False, **variable) == from_variable
    with pytest.raises(CommandFailed, match="no context three; contexts: one, two"):
        peers((), "three")


def test_a_current_context_does_not_draw_in_what_listens() -> None:
    import os

    save(os.environ, Contexts({"one": Context((("c", 1),), {"allow_plain": True})}, "one"))
    given = {"peers": (), "context": None, **NOTHING}
    assert take_mesh(dict(given)).peers == (("c", 1),)
    assert take_mesh({**given, "listen": (("127.0.0.1", 0),)}).peers == ()
    assert take_mesh(dict(given), is_optional=True).peers == ()
    assert take_mesh({**given, "context": "one", "listen": (("h", 0),)}).peers == (("c", 1),)


def test_one_way_in_replaces_that_of_the_context_as_a_whole(tmp_path) -> None:
    import os

    files = {name: str(tmp_path / name) for name in ("certificate", "certificate_key", "authority")}
    options = {**files, "allow_plain": True, "sign": True, "settings": str(tmp_path / "s.toml")}
    save(os.environ, Contexts({"one": Context((("c", 1),), options)}, "one"))
    given = {"peers": (), "context": None, **NOTHING}
    kept = take_mesh(dict(given))
    assert set(kept.trust.given) == {"certificate", "key", "authority", "allow_plain"}
    assert kept.trust.settings_file == tmp_path / "s.toml"
    assert kept.rights == {"sign": True}
    replaced = take_mesh({**given, "secret_file": tmp_path / "secret"})
    assert set(replaced.trust.given) == {"secret_file"}


@pytest.mark.parametrize("value", ["a/b", "peermesh://h:1/peermesh-secret-oops"])
def test_a_variable_that_is_no_address_is_told(capsys, monkeypatch, value) -> None:
    monkeypatch.setenv("PEERMESH_PEER", value)
    said = told(capsys, "pub", "t", "1", code=2)
    assert "PEERMESH_PEER" in said
    assert "oops" not in said


def test_a_context_is_all_that_a_command_needs(capsys) -> None:
    with blocking.Endpoint(secret=SECRET) as endpoint, endpoint.attach_master("cities"):
        ticket = JoinTicket("127.0.0.1", endpoint.listen(), SECRET).text()
        told(capsys, "context", "add", "home", "--peer", ticket)
        told(capsys, "store", "put", "cities", "vienna", "1")
        assert told(capsys, "store", "keys", "cities") == '"vienna"\n'


def test_an_endpoint_ignores_the_names_of_the_command_line(monkeypatch) -> None:
    for name in ("PEER", "CONTEXT", "CONFIG_DIR"):
        monkeypatch.setenv(f"PEERMESH_{name}", "anything: at all")
    Endpoint()
    with blocking.Endpoint() as endpoint:
        assert endpoint.peers() == []


def test_without_any_place_a_command_names_all_ways(capsys) -> None:
    said = told(capsys, "store", "keys", "cities", code=ExitCode.USAGE)
    for way in ("--peer HOST:PORT", "PEERMESH_PEER", "peermesh context add"):
        assert way in said
