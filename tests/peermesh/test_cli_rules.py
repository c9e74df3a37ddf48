"""What holds for every command: --json, --help, addresses, values, and how errors are told."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import click
import pytest
from click.testing import CliRunner

from peermesh import Endpoint as TrioEndpoint
from peermesh.blocking import Endpoint
from peermesh.cli.addresses import read_address
from peermesh.cli.application import application, commands_below, run, wants_json
from peermesh.cli.arguments import read_value
from peermesh.cli.command import Command, ConnectionOption
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.output import say
from peermesh.cli.values import format_value, on_a_line, parse_value
from peermesh.cli.wording import told
from wire.errors import AddressInUse, InsecureAddress, MeshError, RolesError

COMMANDS = dict(commands_below(application, "peermesh"))
COMMAND = [sys.executable, "-m", "peermesh"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}

Run = Callable[..., tuple[str, str]]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path) -> None:
    for name in ("PEER", "CONTEXT", "SECRET"):
        monkeypatch.delenv(f"PEERMESH_{name}", raising=False)
    monkeypatch.setenv("PEERMESH_CONFIG_DIR", str(tmp_path / "contexts"))


@pytest.fixture(scope="module")
def mesh() -> Iterator[str]:
    with (
        Endpoint() as endpoint,
        endpoint.attach_master("cities") as cities,
        endpoint.attach_log("events", partitions=1),
    ):
        cities.put("vienna", 48.2).result(timeout=30)
        cities.put("text", "a\nb").result(timeout=30)
        cities.put("bytes", b"\xff\x00").result(timeout=30)
        cities.put("tricky", "\x9b2J\u202e\u200b").result(timeout=30)
        yield f"127.0.0.1:{endpoint.listen()}"


# Every command.


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json_and_explains_itself_in_80_columns(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, Command)
    assert [each for each in command.params if "--json" in each.opts]
    shown = CliRunner().invoke(application, [*name.split()[1:], "--help"], terminal_width=80)
    assert shown.exit_code == 0
    assert "--json" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 80


def test_nothing_writes_json_beside_the_one_way() -> None:
    takes = [name for name, each in COMMANDS.items() if "as_json" in each.callback.__annotations__]
    assert not takes


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_mentions_the_connection_in_one_line(name: str) -> None:
    command = COMMANDS[name]
    options = [each for each in command.params if isinstance(each, ConnectionOption)]
    shown = CliRunner().invoke(application, [*name.split()[1:], "--help"], terminal_width=80).output
    if not options or command.shows_connection:
        assert "Connection options" not in shown
        return
    (line,) = [line for line in shown.splitlines() if "Connection options" in line]
    assert "peermesh help connection" in line
    assert "--certificate-key" not in shown


def test_the_options_of_the_connection_are_explained_in_one_place(tell: Run) -> None:
    out, _ = tell("help", "connection")
    options = [
        each for each in COMMANDS["peermesh pub"].params if isinstance(each, ConnectionOption)
    ]
    assert len(options) >= 10
    assert all(option.opts[0] in out for option in options)
    assert "PEERMESH_PEER" in out
    assert "Usage: peermesh store get" in tell("help", "store", "get")[0]
    assert "there is no command peermesh store sing" in tell("help", "store", "sing", code=2)[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pub --config", "--settings"),
        ("broker qos2 --folder", "--path"),
        ("certs init --directory", "--path"),
        ("demo --directory", "--path"),
        ("store put --raw", "--text"),
    ],
)
def test_an_old_spelling_works_and_is_not_shown(old: str, new: str) -> None:
    *words, option = old.split()
    (found,) = [o for o in COMMANDS[" ".join(["peermesh", *words])].params if option in o.opts]
    assert new in found.opts
    shown = CliRunner().invoke(application, [*words, "--help"]).output
    assert not re.search(rf"{option}\b", shown)


def test_python_m_peermesh_is_the_command_and_names_what_is_missing() -> None:
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("peermesh, version ")
    code = (
        "import sys, runpy; sys.modules['click'] = None; sys.argv = ['peermesh'];"
        " runpy.run_module('peermesh', run_name='__main__')"
    )
    failed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert failed.returncode == ExitCode.MISSING
    assert "pip install 'peermesh[cli]'" in failed.stderr


# Addresses.


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("example.org", ("example.org", 9999)),
        ("example.org:1", ("example.org", 1)),
        ("10.0.0.1", ("10.0.0.1", 9999)),
        (":9998", ("127.0.0.1", 9998)),
        ("9999", ("127.0.0.1", 9999)),
        ("0", ("127.0.0.1", 0)),
        ("::1", ("::1", 9999)),
        ("[::1]", ("::1", 9999)),
        ("[::1]:7", ("::1", 7)),
        ("peermesh-0.seeds:9999", ("peermesh-0.seeds", 9999)),
    ],
)
def test_an_address_is_read_as_people_type_it(text: str, address: tuple[str, int]) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "99999",
        ":99999",
        "9" * 5_000,
        "h:",
        "h:x",
        "a b",
        "a/b",
        "h:1:2",
        "[::1",
        "h\n",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    assert read_address(text) is None


def test_a_service_without_a_known_port_needs_one() -> None:
    assert read_address("example.org", None) is None
    assert read_address("8000", None) == ("127.0.0.1", 8000)


# Values.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("vienna", "vienna"),
        ("48.2", 48.2),
        ('"48.2"', "48.2"),
        ("true", True),
        ("NaN", "NaN"),
        ("", ""),
        ("{", "{"),
        ("[1, 2]", (1, 2)),
        ("-5", -5),
    ],
)
def test_what_is_json_is_read_as_json_and_the_rest_as_text(text: str, value: object) -> None:
    found = read_value(text)
    assert (found, type(found)) == (value, type(value))
    assert read_value(text, as_text=True) == text


@pytest.mark.parametrize(
    "text", ['{"@data-type": "count", "data": -1}', "[" * 100_000, "9" * 5_000]
)
def test_json_that_is_no_value_is_not_taken_for_text(text: str) -> None:
    with pytest.raises(click.UsageError, match="--text"):
        read_value(text)


def test_broken_json_that_is_taken_as_text_is_told(capsys) -> None:
    assert read_value('{"a": 1') == '{"a": 1'
    assert "taken as text" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["\x9b2J", "\x7f", "\u202e", "\u200b", "\u2028", "\U000e0041", "\u3164"]
)
def test_a_value_cannot_disturb_a_terminal_and_stays_the_same(text: str) -> None:
    for value in (text, {text: (text,)}):
        shown = format_value(value)
        assert shown.isascii()
        assert format_value(parse_value(shown)) == shown
    assert parse_value(format_value(text)) == text
    assert on_a_line(text).isascii()


def test_keys_and_values_need_no_quotes(tell: Run, mesh: str) -> None:
    at = ("--peer", mesh)
    assert tell("store", "get", "cities", "vienna", *at)[0] == "48.2\n"
    tell("store", "put", "cities", "5", "five", *at)
    tell("store", "put", "cities", "5", "-7", "--text", *at)
    tell("store", "put", "cities", "minus", "-7", *at)
    assert tell("store", "get", "cities", "5", *at)[0] == '"five"\n'
    assert tell("store", "get", "cities", "5", "--text", *at)[0] == '"-7"\n'
    assert tell("store", "get", "cities", "minus", *at)[0] == "-7\n"
    assert tell("store", "get", "cities", "tricky", *at)[0] == '"\\u009b2J\\u202e\\u200b"\n'
    assert "No such option" in tell("store", "get", "cities", "-x", *at, code=2)[1]


def test_raw_writes_text_without_quotes_and_bytes_as_they_are(mesh: str, capfdbinary) -> None:
    at = ("--raw", "--peer", mesh)
    assert run(["store", "get", "cities", "text", *at]) == 0
    assert run(["store", "get", "cities", "bytes", *at]) == 0
    assert capfdbinary.readouterr().out == b"a\nb\n\xff\x00"


@pytest.mark.parametrize(
    ("arguments", "is_refused"),
    [
        ("store get cities bytes --raw", True),
        ("store get cities tricky --raw", True),
        ("store get cities text --raw", False),
        ("store dump cities -", True),
    ],
)
def test_nothing_binary_is_written_to_a_terminal(
    mesh: str, arguments: str, is_refused: bool
) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*COMMAND, *arguments.split(), "--peer", mesh],
        stdout=theirs, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    os.close(theirs)
    assert (done.returncode == ExitCode.FAILED) is is_refused
    assert (b"a terminal cannot show" in done.stderr) is is_refused
    if not is_refused:
        assert os.read(ours, 100) == b"a\r\nb\r\n"
    os.close(ours)


def test_a_dash_reads_a_value_from_stdin(mesh: str) -> None:
    def piped(stdin: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*COMMAND, *arguments, "--peer", mesh],
            input=stdin, capture_output=True, env=ENVIRONMENT, check=False,
        )  # fmt: skip

    assert piped(b'{"a": [1,\n 2]}\n', "store", "put", "cities", "piped", "-").returncode == 0
    assert piped(b"piped\n", "store", "get", "cities", "-").stdout == b'{"a": [1, 2]}\n'
    refused = piped(b"\xff", "store", "put", "cities", "piped", "-")
    assert (refused.returncode, b"not UTF-8" in refused.stderr) == (ExitCode.FAILED, True)
    appended = piped(b"one\n2\n", "log", "append", "events", "-")
    assert appended.stdout == b"0 0\n0 1\n"
    again = piped(b"x\ny\n", "log", "append", "events", "-", "--producer", "p", "--sequence", "5")
    repeated = piped(
        b"x\ny\n", "log", "append", "events", "-", "--producer", "p", "--sequence", "5"
    )
    assert again.stdout == repeated.stdout == b"0 2\n0 3\n"
    assert piped(b"", "log", "read", "events", "--raw").stdout == b"one\n2\nx\ny\n"


def test_a_ticket_and_a_dump_are_read_from_stdin(mesh: str, tell: Run, tmp_path) -> None:
    dumped = tmp_path / "cities.dump"
    tell("store", "dump", "cities", str(dumped), "--peer", mesh)
    with dumped.open("rb") as file:
        loaded = subprocess.run(
            [*COMMAND, "store", "load", "cities", "-", "--over", "--peer", mesh],
            stdin=file, capture_output=True, env=ENVIRONMENT, check=False,
        )  # fmt: skip
    assert loaded.returncode == 0, loaded.stderr
    piped = subprocess.run(
        [*COMMAND, "store", "load", "cities", "-", "--over", "--peer", mesh, "--json"],
        input=dumped.read_bytes(), capture_output=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert json.loads(piped.stdout)["entries"] >= 4
    made = tell("secret", "new")[0].strip()
    ticket = f"peermesh://127.0.0.1:1/{made}\n"
    failed = subprocess.run(
        [*COMMAND, "pub", "t", "1", "--peer", "-"],
        input=ticket, capture_output=True, text=True, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert "connection refused" in failed.stderr
    assert "(ps)" not in failed.stderr, "it could not be seen there"


# JSON, and errors.


def test_json_lines_have_a_version(tell: Run, mesh: str) -> None:
    at = ("--json", "--peer", mesh)
    for arguments in (
        ("pub", "t", "1"),
        ("store", "put", "cities", "j", "1"),
        ("store", "get", "cities", "j"),
        ("store", "keys", "cities"),
        ("store", "scan", "cities"),
        ("store", "verify", "cities"),
        ("store", "delete", "cities", "j"),
        ("log", "append", "events", "1"),
        ("log", "read", "events"),
        ("log", "offsets", "events"),
    ):
        out, _ = tell(*arguments, *at)
        lines = [json.loads(line) for line in out.splitlines()]
        assert lines, arguments
        assert all(line["v"] == 1 for line in lines), arguments
    out, _ = tell("store", "get", "cities", "tricky", *at)
    assert out.rstrip("\n").isprintable()
    assert json.loads(out)["value"] == "\x9b2J\u202e\u200b"


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        ("store get cities nothing", ExitCode.FAILED, "no_such_key"),
        ("store get citties vienna", ExitCode.FAILED, "no_such_store"),
        ("log offsets evnets", ExitCode.FAILED, "no_such_log"),
        ("store get cities", ExitCode.USAGE, "usage"),
        ("store get cities a --context none", ExitCode.USAGE, "no_such_context"),
        ("log offsets events --peer 127.0.0.1:1", ExitCode.TIMEOUT, None),
        ("log read events --partition 7", ExitCode.FAILED, "no_such_partition"),
        ("store load cities /dev/null", ExitCode.FAILED, "invalid_data"),
    ],
)
def test_an_error_is_json_if_json_was_asked_for(
    tell: Run, mesh: str, monkeypatch, arguments: str, code: int, kind: str | None
) -> None:
    monkeypatch.setenv("PEERMESH_PEER", mesh)
    out, err = tell(*arguments.split(), "--json", code=code)
    assert out == ""
    found = json.loads(err.splitlines()[-1])
    assert set(found) == {"v", "error", "message", "hint"}
    assert found["error"] == (kind or "peer_unavailable")
    assert found["message"]


def test_json_is_asked_for_by_the_option_alone() -> None:
    assert wants_json(["pub", "t", "--json"])
    assert not wants_json(["pub", "t", "--", "--json"])


async def test_errors_speak_the_words_of_commands() -> None:
    errors: list[MeshError] = []
    async with TrioEndpoint() as endpoint:
        for address in ("192.0.2.1", "::"):
            with pytest.raises(InsecureAddress) as insecure:
                await endpoint.peer(address, 1)
            errors.append(insecure.value)
    with pytest.raises(RolesError) as roles:
        TrioEndpoint(roles={"default": "all", "roles": {"all": {"publish": [""]}}})
    errors.append(roles.value)
    for error in errors:
        found = told(error)
        message = f"{found.message} {found.hint}"
        assert found.text() != f"peermesh: {error}"
        assert message != str(error)
        assert "=" not in message
        assert "Credentials" not in message
        assert "Endpoint(" not in message
        assert "--certificate" in message


def test_an_error_with_what_others_chose_disturbs_no_terminal(capsys) -> None:
    say(told(AddressInUse("a\x1b[2J\u202eb")).text())
    assert capsys.readouterr().out.startswith(r"peermesh: a\u001b[2J\u202eb")
    assert told(CommandFailed("x", hint="do y")).text() == "peermesh: x; do y"
