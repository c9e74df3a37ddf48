"""Changes of one key from the command line, stores that are not there, and peers that refuse."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from peermesh.blocking import Endpoint
from peermesh.cli.application import run
from peermesh.cli.exits import ExitCode
from peermesh.errors import QuotaExceeded
from peermesh.testing.time_limits import limit

COMMAND = [sys.executable, "-m", "peermesh"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}
ENVIRONMENT["PEERMESH_CONFIG_DIR"] = "/nonexistent"

EVENTS_IN_A_PIPE = 600
"""Events of a node that no pipe holds: Linux gives it 64 KiB, and one takes 110 bytes at least."""

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def cities(monkeypatch) -> Iterator[Endpoint]:
    with Endpoint() as endpoint, endpoint.attach_master("cities"):
        monkeypatch.setenv("PEERMESH_PEER", f"127.0.0.1:{endpoint.listen()}")
        yield endpoint


@pytest.fixture
def tell(capsys) -> Run:
    def told_by(*arguments: str, code: int = 0) -> tuple[str, str]:
        found = run(list(arguments))
        out, err = capsys.readouterr()
        assert found == code, err
        return out, err

    return told_by


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*COMMAND, *arguments], env=ENVIRONMENT, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


# Changes.


@pytest.mark.usefixtures("cities")
def test_a_key_can_be_deleted_once(tell: Run) -> None:
    tell("store", "put", "cities", "vienna", "1")
    assert tell("store", "delete", "cities", "vienna")[0] == "2\n"
    _, err = tell("store", "delete", "cities", "vienna", code=ExitCode.FAILED)
    hint = "peermesh store keys cities lists them"
    assert err == f'peermesh: store cities has no key "vienna"; {hint}\n'
    tell("store", "put", "cities", "vienna", "1")
    assert json.loads(tell("store", "erase", "cities", "vienna", "--json")[0])["revision"] > 2
    assert tell("store", "keys", "cities")[0] == ""


def test_a_store_that_is_full_says_what_is_used_and_what_to_do(
    tell: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Endpoint() as endpoint, endpoint.attach_master("cities", max_entries=1):
        monkeypatch.setenv("PEERMESH_PEER", f"127.0.0.1:{endpoint.listen()}")
        tell("store", "put", "cities", "vienna", "1")
        _, err = tell("store", "put", "cities", "linz", "1", code=ExitCode.FAILED)
        assert err == (
            "peermesh: store cities is full: 1 of 1 entries are used; remove some, or raise it:"
            ' --max-entries and --max-bytes where it is led, "peermesh store quota NAME" or'
            ' "peermesh log quota NAME" for a group\n'
        )
        tell("store", "erase", "cities", "vienna")
        tell("store", "put", "cities", "linz", "1")


def test_an_entry_of_a_dump_that_is_refused_is_no_success(
    tell: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = str(tmp_path / "cities.dump")
    with (
        Endpoint() as endpoint,
        endpoint.attach_master("cities"),
        endpoint.attach_master("small", max_bytes=2_000),
    ):
        monkeypatch.setenv("PEERMESH_PEER", f"127.0.0.1:{endpoint.listen()}")
        for name, value in (("graz", "1"), ("linz", "x" * 2_000), ("vienna", "1")):
            tell("store", "put", "cities", name, value)
        tell("store", "dump", "cities", path)
        _, err = tell("store", "load", "small", path, "--json", code=ExitCode.FAILED)
        assert "1 entry is there, and others may be missing" in err
        assert json.loads(err.splitlines()[-1])["error"] == "quota_exceeded"


@pytest.mark.usefixtures("cities")
def test_a_dump_into_a_directory_that_is_missing_names_it(tell: Run, tmp_path: Path) -> None:
    place = str(tmp_path / "none" / "cities.dump")
    _, err = tell("store", "dump", "cities", place, code=ExitCode.FAILED)
    assert f"cannot use {tmp_path / 'none'}: No such file or directory" in err


def test_a_dump_that_breaks_off_leaves_the_earlier_one(
    tell: Run, cities: Endpoint, tmp_path: Path
) -> None:
    path = tmp_path / "cities.dump"
    tell("store", "put", "cities", "vienna", "1")
    tell("store", "dump", "cities", str(path))
    before = path.read_bytes()
    tell("store", "put", "cities", "graz", "x" * 2_000_000)
    at = f"127.0.0.1:{cities.listen()}"
    limited = ["sh", "-c", 'ulimit -f 2000; exec "$@"', "sh", *COMMAND]  # blocks of 512 bytes
    command = [*limited, "store", "dump", "cities", str(path), "--peer", at]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, path.read_bytes()) == (ExitCode.FAILED, before), done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["cities.dump"]


def test_a_node_whose_reader_has_stopped_serves_its_store() -> None:
    with started("node", "--master", "cities", "--listen", "0", "--json") as process:
        port = port_of(process)
        for _ in range(EVENTS_IN_A_PIPE // 4):  # each that comes and goes is four events
            with Endpoint() as endpoint:
                assert endpoint.peer("127.0.0.1", port)
                with endpoint.attach_proxy("cities") as proxy:
                    proxy.put("vienna", 1).result(timeout=limit())


@pytest.mark.parametrize(
    "words",
    [
        ("node", "--master", "cities:{path}"),
        ("node", "--name", "a", "--voters", "a", "--replica", "cities:{path}"),
        ("log", "keep", "cities", "--path", "{path}"),
        ("log", "replica", "cities", "--name", "a", "--voters", "a", "--path", "{path}"),
    ],
)
def test_what_holds_nothing_any_more_ends(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "cities.db"
    command = [each.format(path=path) for each in words]
    with started(*command, "--listen", "0", "--json") as process:
        port = port_of(process)
        with Endpoint() as endpoint:
            assert endpoint.peer("127.0.0.1", port)
            if command[0] == "node":
                proxy = endpoint.attach_proxy("cities")
                proxy.put("vienna", 1).result(timeout=limit())
                path.unlink()
                proxy.put("vienna", 2)
            else:
                log = endpoint.attach_log_proxy("cities")
                log.append(1).result(timeout=limit())
                path.unlink()
                log.append(2)
            _, err = process.communicate(timeout=limit())
    assert process.returncode == ExitCode.FAILED
    told = json.loads(err.splitlines()[-1])
    assert told["error"] == "store_failed"
    assert "was removed" in told["message"]


def port_of(process: subprocess.Popen[str]) -> str:
    """Wait until what was started listens."""
    assert process.stdout is not None
    return next(str(found["port"]) for found in map(json.loads, process.stdout) if "port" in found)


@pytest.mark.parametrize("harm", ["lost ballot", "older file"])
@pytest.mark.parametrize(
    ("words", "fresh", "write", "read"),
    [
        (("node", "--master", "s:{path}"), ("--fresh", "s"), "store put s b a", "store get s b"),
        (("log", "keep", "s", "--path", "{path}"), ("--fresh",), "log append s a", "log read s"),
    ],
    ids=["store", "log"],
)
def test_what_lacks_something_leads_if_it_is_told_to(  # noqa: PLR0913 - words of commands
    tell: Run, tmp_path: Path, words: tuple[str, ...], fresh: tuple[str, ...], write, read, harm
) -> None:
    path = tmp_path / "s.db"
    command = [*(each.format(path=path) for each in words), "--listen", "0", "--json"]
    for _ in range(2):
        before = path.read_bytes() if path.exists() else b""
        with started(*command) as process:
            tell(*write.split(), "--peer", port_of(process))
            process.terminate()
            process.wait(limit())
    if harm == "lost ballot":
        path.with_name("s.db.ballot").unlink()
    else:
        path.write_bytes(before)
    _, err = tell(*command, code=ExitCode.FAILED)
    assert "--fresh leads with what the file has" in err
    with started(*command, *fresh) as process:
        found: dict[str, Any] = {}
        while not {"port", "fresh"} <= found.keys():
            found |= json.loads(process.stdout.readline())
        assert found["fresh"]
        assert '"a"' in tell(*read.split(), "--peer", str(found["port"]))[0]
        process.terminate()
        process.wait(limit())
    with started(*command) as process:  # once is enough
        assert port_of(process)


def test_paths_that_are_mixed_up_are_refused_and_a_file_is_looked_into_apart(
    tell: Run, tmp_path: Path
) -> None:
    one, two = (f"{tmp_path / name}.db" for name in ("one", "two"))
    options = ("--listen", "0", "--json")
    with started(
        "node", "--master", f"cities:{one}", "--master", f"rivers:{two}", *options
    ) as node:
        tell("store", "put", "cities", "vienna", "1", "--peer", port_of(node))
        node.terminate()
        node.wait(limit())
    with started(
        "node", "--master", f"rivers:{one}", "--master", f"cities:{two}", *options
    ) as node:
        _, err = node.communicate(timeout=limit())
        assert "belongs to cities, not to rivers" in err
    with started("node", "--master", f"cities:{one}", *options) as node:
        assert tell("store", "keys", "cities", "--peer", port_of(node))[0] == '"vienna"\n'


def test_lines_of_the_log_have_date_and_time(tmp_path: Path) -> None:
    command = ("node", "--master", f"s:{tmp_path / 's.db'}", "--listen", "0", "--json")
    with started(*command) as process:
        assert port_of(process)
        process.terminate()
        process.wait(limit())
    with (tmp_path / "s.db.ballot").open("r+b") as ballot:
        ballot.write(bytes(8))  # one of two copies
    with started(*command) as process:
        assert port_of(process)
        process.terminate()
        _, err = process.communicate(timeout=limit())
    assert re.search(r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} store s: .*copy 1 of slot 0", err)


def test_only_a_master_begins_anew(tell: Run) -> None:
    _, err = tell("node", "--master", "a", "--fresh", "b", "--listen", "0", code=ExitCode.USAGE)
    assert "--fresh b is about a master: add --master b:PATH" in err


def test_a_clone_that_was_promoted_before_says_how_it_is_started(tmp_path: Path) -> None:
    place = f"s:{tmp_path / 's.db'}"
    with started("node", "--master", place, "--listen", "127.0.0.1:0", "--json") as process:
        assert port_of(process)
        process.terminate()
        process.wait(limit())
    with started("node", "--clone", place, "--listen", "127.0.0.1:0") as process:
        assert process.stdout.readline().startswith("endpoint ")
        line = process.stdout.readline()
        assert line.startswith("clone of s; ")
        assert f"start it with --master {place} instead" in line


@pytest.mark.parametrize("words", ["", "--replica s --voters a --name a"])
def test_a_quota_is_refused_where_it_would_be_of_nothing(tell: Run, words: str) -> None:
    command = ("node", "--listen", "0", "--max-entries", "5", *words.split())
    _, err = tell(*command, code=ExitCode.USAGE)
    assert "--max-entries and --max-bytes are about masters" in err
    assert '"peermesh store quota NAME" has that of a group' in err


@pytest.mark.parametrize("option", ["--master", "--clone", "--replica"])
def test_a_path_that_is_empty_is_no_store_in_memory(tell: Run, option: str) -> None:
    _, err = tell("node", option, "cities:", "--listen", "0", code=ExitCode.USAGE)
    assert "cities: has no path behind the colon" in err


def test_a_node_takes_a_quota_for_its_stores() -> None:
    node = ["node", "--master", "cities", "--max-entries", "1", "--max-bytes", "1MiB"]
    with started(*node, "--listen", "0", "--json") as process:
        port = port_of(process)
        with Endpoint() as endpoint:
            assert endpoint.peer("127.0.0.1", port)
            with endpoint.attach_proxy("cities") as proxy:
                proxy.put("vienna", 1).result(timeout=limit())
                with pytest.raises(QuotaExceeded):
                    proxy.put("linz", 1).result(timeout=limit())


@pytest.mark.usefixtures("cities")
def test_one_peer_that_answers_is_enough_whatever_is_wrong_with_the_others(tell: Run) -> None:
    port = os.environ["PEERMESH_PEER"]
    good, bad = ("--peer", port), ("--peer", "h.invalid")
    _, err = tell("store", "keys", "cities", *bad, *good)
    assert "there is no host h.invalid; going on without it" in err


@pytest.mark.usefixtures("cities")
def test_what_cannot_be_added_names_store_and_key_and_what_to_look_at(tell: Run) -> None:
    tell("store", "put", "cities", "word", "text")
    _, err = tell("store", "increment", "cities", "word", code=ExitCode.FAILED)
    assert 'store cities, key "word": 1 is not added' in err
    assert "peermesh store get cities KEY" in err
    _, err = tell("store", "increment", "cities", "word", "abc", code=ExitCode.USAGE)
    assert "AMOUNT is a number" in err
    _, err = tell("store", "put", "cities", "k", "\udcff", code=ExitCode.USAGE)
    assert "not UTF-8" in err


@pytest.mark.usefixtures("cities")
def test_a_number_can_be_incremented_by_any_amount(tell: Run) -> None:
    assert tell("store", "increment", "cities", "n")[0] == "1\n"
    tell("store", "increment", "cities", "n", "10")
    tell("store", "increment", "cities", "n", "-4")
    assert tell("store", "get", "cities", "n")[0] == "7\n"
    tell("store", "put", "cities", "text", "a")
    _, err = tell("store", "increment", "cities", "text", code=ExitCode.FAILED)
    assert err.count("\n") == 1
    assert tell("store", "get", "cities", "text")[0] == '"a"\n'


@pytest.mark.usefixtures("cities")
def test_a_key_is_set_only_if_nothing_else_has_changed_it(tell: Run) -> None:
    assert tell("store", "cas", "cities", "k", "one", "--if-missing")[0] == "1\n"
    _, err = tell("store", "cas", "cities", "k", "two", "--if-missing", code=ExitCode.FAILED)
    assert "is there already; nothing was changed" in err
    revision = json.loads(tell("store", "get", "cities", "k", "--json")[0])["revision"]
    made = tell("store", "cas", "cities", "k", "two", "--if-revision", str(revision))[0].strip()
    assert int(made) > revision
    arguments = ("store", "cas", "cities", "k", "three", "--if-revision", str(revision), "--json")
    failed = json.loads(tell(*arguments, code=ExitCode.FAILED)[1])
    assert failed["error"] == "guard_failed"
    assert f"revision {revision}" in failed["message"]
    assert tell("store", "get", "cities", "k")[0] == '"two"\n'
    for guards in ((), ("--if-missing", "--if-revision", "1")):
        _, err = tell("store", "cas", "cities", "k", "x", *guards, code=ExitCode.USAGE)
        assert "--if-revision N, or --if-missing" in err


# What is not there.


def test_a_store_that_is_not_there_ends_at_once_and_names_those_that_are(
    tell: Run, cities: Endpoint
) -> None:
    with cities.attach_master("rivers"):
        _, err = tell("store", "get", "citties", "vienna", code=ExitCode.FAILED)
    assert err == "peermesh: no store citties here; stores: cities, rivers\n"
    _, err = tell("store", "watch", "citties", code=ExitCode.FAILED)
    assert "stores: cities" in err
    _, err = tell("log", "offsets", "evnets", code=ExitCode.FAILED)
    assert err.startswith("peermesh: no log evnets here; logs: none; ")
    assert "peermesh log keep" in err
    _, err = tell("store", "keys", "citties", "--wait", "0.6", code=ExitCode.TIMEOUT)
    assert "no store citties here within 0.6 s" in err


def test_with_wait_a_store_may_come_later(cities: Endpoint) -> None:
    port = os.environ["PEERMESH_PEER"]
    with started("store", "keys", "later", "--wait", "60", "--peer", port) as process:
        while not cities.peers():
            assert process.poll() is None, process.stderr.read()
        with cities.attach_master("later") as later:
            later.put("a", 1).result(timeout=60)
            assert process.communicate()[0] == '"a"\n'
            assert process.returncode == 0


def test_a_store_whose_master_is_away_is_not_called_unknown(tell: Run, cities: Endpoint) -> None:
    with cities.attach_clone("orphan"):
        _, err = tell("store", "keys", "orphan", "--wait", "1", code=ExitCode.TIMEOUT)
    assert "no store" not in err
    assert "master" in err


# Peers that refuse.


@contextmanager
def refusing() -> Iterator[str]:
    """Give an address that refuses for as long as it is held."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize("command", ["pub t 1", "sub t", "store get s k", "store watch s",
                                     "log watch l", "dlq list", "spark watch"])  # fmt: skip
def test_a_command_ends_when_every_address_refuses(tell: Run, command: str) -> None:
    """Not when ten seconds are over: then the text would say so."""
    with refusing() as one, refusing() as two:
        arguments = (*command.split(), "--peer", one, "--peer", two)
        out, err = tell(*arguments, code=ExitCode.TIMEOUT)
    assert out == ""
    assert "connection refused" in err
    assert "--wait SECONDS waits for it" in err
    assert one in err
    assert two in err
    assert "within" not in err


def test_a_host_that_does_not_exist_is_told_as_such(tell: Run) -> None:
    _, err = tell("node", "-l", "h.invalid", code=ExitCode.FAILED)
    assert "no such address here: 'h.invalid'" in err
    _, err = tell("pub", "t", "1", "--peer", "h.invalid", code=ExitCode.TIMEOUT)
    assert "no peering with h.invalid:9999: there is no host h.invalid" in err
    _, err = tell("pub", "t", "1", "--peer", "h.invalid", "--allow-plain", code=ExitCode.TIMEOUT)
    assert "within" not in err


def test_with_wait_a_command_says_every_two_seconds_that_it_tries() -> None:
    with refusing() as address, started("pub", "t", "1", "-p", address, "--wait", "600") as process:
        line = f"peermesh: still trying {address}: connection refused; Ctrl-C ends it\n"
        assert [process.stderr.readline() for _ in range(2)] == [line, line]
        process.send_signal(signal.SIGINT)
        assert process.wait() == ExitCode.INTERRUPTED


def test_one_peer_that_answers_is_enough(tell: Run, cities: Endpoint) -> None:
    with refusing() as address:
        peers = ("--peer", address, "--peer", os.environ["PEERMESH_PEER"])
        out, err = tell("store", "put", "cities", "a", "1", *peers)
    assert out == "1\n"
    assert f"{address} (connection refused)" in err
    assert "going on without it" in err


@pytest.mark.parametrize(
    "command", ["node --master s", "log keep l", "log follow l", "serve webhdfs --store s --http 0"]
)
def test_what_stays_tries_on_and_says_so(command: str) -> None:
    with refusing() as address, started(*command.split(), "--peer", address) as process:
        said = ""
        while "still trying" not in said:
            said = process.stderr.readline()
            assert said, "it ended"
        assert said == f"peermesh: still trying {address}: connection refused; Ctrl-C ends it\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == ExitCode.INTERRUPTED
