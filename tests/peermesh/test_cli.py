"""The command line, as its users meet it: processes, their output, and how they end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from handshake.secret import ClusterSecret
from peermesh.cli.exits import ExitCode
from peermesh.spark.java import java_problem, version_problem
from peermesh.testing.time_limits import limit
from tests.peermesh.commands import run

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "peermesh.cli"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}


def run_alone(
    *arguments: str, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, as users do."""
    found = subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT | environment,
        check=False,
    )
    assert "Traceback" not in found.stderr
    return found


@contextmanager
def started(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT | environment,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def node(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A node that listens, and its address."""
    options = ("node", "--listen", "127.0.0.1:0", "--json", *arguments)
    with started(*options, **environment) as process:
        yield process, f"127.0.0.1:{find_event(process, 'listening')['port']}"


def find_event(process: subprocess.Popen[str], event: str) -> dict[str, object]:
    for line in process.stdout:
        message = json.loads(line)
        if message["event"] == event:
            return message
    raise AssertionError(f"it ended without {event}: {process.stderr.read()}")


def until(process: subprocess.Popen[str], text: str) -> None:
    """Wait for a line on stderr."""
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"it ended without {text!r}")


# Help and mistakes.


def test_the_help_names_all_commands_and_exit_codes():
    shown = run_alone("--help").stdout
    assert all(name in shown for name in ("demo", "link", "node", "pub", "sub", "store"))
    assert all(f"{code.value} " in shown for code in ExitCode)


def test_the_version_is_told():
    assert run_alone("--version").stdout.startswith("peermesh, version ")


@pytest.mark.parametrize("command", ["demo", "link", "node", "pub", "sub", "store get", "store put",
                                     "store keys", "store scan", "store events", "store watch",
                                     "store dump", "store load"])  # fmt: skip
def test_every_command_explains_itself(command):
    shown = run(*command.split(), "--help")
    assert shown.returncode == 0
    assert len(shown.stdout.split("\n\n")) >= 3, "usage, what it does, and the options"


def test_the_demo_names_its_default_input():
    assert "pyspark/sql/functions/builtin.py" in run("demo", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ("pub t 1", "--peer HOST:PORT"),
        ("sub t", "--peer HOST:PORT"),
        ("node", "--peer HOST:PORT"),
        ("store keys table", "--peer HOST:PORT"),
        ("store keys table --peer a/b", "HOST:PORT, as in 127.0.0.1:9999"),
        ("store keys table --peer 127.0.0.1:99999", "up to 65535"),
        (f"store keys table --peer 127.0.0.1:{'9' * 5_000}", "up to 65535"),
        ('pub t {"@data-type":"count"} --peer 127.0.0.1:1', "--text"),
        ("store put t - - --peer 127.0.0.1:1", "only one argument can be -"),
        ("store get t a --raw --json --peer 127.0.0.1:1", "--raw or --json"),
        ("store put t 1 1 --expiry 0 --peer 127.0.0.1:1", "--expiry"),
        ("store promote t --at= --peer 127.0.0.1:1", "an empty text is no node"),
        ("nonsense", "there is no command peermesh nonsense"),
    ],
)
def test_a_command_given_wrongly_says_what_to_give(arguments, advice):
    failed = run(*arguments.split())
    assert (failed.returncode, failed.stdout) == (ExitCode.USAGE, "")
    assert advice in failed.stderr


def test_a_demo_of_a_file_needs_the_name_of_the_key(tmp_path):
    (tmp_path / "words").write_text("one two\n")
    failed = run("demo", "--input", str(tmp_path / "words"))
    assert (failed.returncode, failed.stdout) == (ExitCode.USAGE, "")
    assert "--key FIELD" in failed.stderr


def test_a_missing_extra_is_named():
    code = "import sys; sys.modules['click'] = None; from peermesh.cli import main; main()"
    failed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert failed.returncode == ExitCode.MISSING
    assert failed.stderr == (
        "peermesh: the command line needs click and rich: pip install 'peermesh[cli]'\n"
    )


# What the demo cannot begin with.


def one_sentence(failed: subprocess.CompletedProcess[str], code: ExitCode) -> str:
    assert failed.returncode == code
    assert failed.stdout == ""
    assert failed.stderr.count("\n") == 1
    return failed.stderr


def test_a_missing_file_is_one_sentence(tmp_path):
    failed = run("demo", "--input", str(tmp_path / "nowhere"), "--key", "a")
    assert "nowhere: No such file" in one_sentence(failed, ExitCode.FAILED)


def test_a_missing_java_is_one_sentence(tmp_path):
    failed = run("demo", PATH=str(tmp_path), JAVA_HOME="")
    assert "install Java 17" in one_sentence(failed, ExitCode.MISSING)
    failed = run("demo", JAVA_HOME=str(tmp_path))
    assert "install Java 17" in one_sentence(failed, ExitCode.MISSING)


@pytest.fixture
def java_home(tmp_path) -> str:
    """Give a Java that only tells its version: nothing is asked of it before Spark is started."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    java.chmod(0o755)
    return str(tmp_path / "java")


def test_missing_http_is_one_sentence(java_home):
    code = "import sys; sys.modules['h11'] = None; from peermesh.cli import main; main()"
    failed = subprocess.run(
        [sys.executable, "-c", code, "demo"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT | {"JAVA_HOME": java_home},
        check=False,
    )
    assert "pip install 'peermesh[http]'" in one_sentence(failed, ExitCode.MISSING)


def test_a_picture_that_cannot_be_written_is_one_sentence(tmp_path, java_home):
    path = tmp_path / "events"
    path.write_text('{"a": 1}\n')
    wanted = str(tmp_path / "nowhere" / "run.svg")
    failed = run(
        "demo", "--input", str(path), "--key", "a", "--picture", wanted, JAVA_HOME=java_home
    )
    assert "run.svg: No such file" in one_sentence(failed, ExitCode.FAILED)


def test_a_key_that_no_event_has_is_one_sentence(tmp_path, java_home):
    path = tmp_path / "events"
    path.write_text('{"good": 1}\n')
    failed = run("demo", "--input", str(path), "--key", "godo", JAVA_HOME=java_home)
    assert "no event of" in one_sentence(failed, ExitCode.FAILED)
    assert "has good" in failed.stderr


def test_a_directory_in_use_is_not_written_to(tmp_path):
    path = tmp_path / "events"
    path.write_text('{"a": 1}\n')
    failed = run("demo", "--input", str(path), "--key", "a", "--directory", str(tmp_path))
    assert failed.returncode != 0
    assert [each.name for each in tmp_path.iterdir()] == ["events"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ('openjdk version "17.0.15" 2025-04-15\n', None),
        ('openjdk version "21" 2023-09-19\n', None),
        ('openjdk version "11.0.2" 2019-01-15\n', "is Java 11"),
        ('java version "1.8.0_292"\n', "is Java 8"),
        ("what?\n", "does not tell its version"),
    ],
)
def test_a_java_that_is_too_old_is_noticed(answer, problem):
    found = version_problem("java", answer)
    assert (found is None) == (problem is None)
    assert problem is None or problem in found


def test_java_is_looked_for_where_spark_does(tmp_path):
    assert "JAVA_HOME" in java_problem({"PATH": str(tmp_path)})
    assert f"{tmp_path}/bin/java does not run" in java_problem({"JAVA_HOME": str(tmp_path)})


# Messages.


def test_what_is_published_is_received_typed():
    with node() as (_, address), started("sub", "a", "b", "--peer", address, "--json", "--count",
                                         "4") as receiver:  # fmt: skip
        until(receiver, "subscribed")
        assert run("pub", "a/1", '[1, 1.0, "x"]', "--peer", address).returncode == 0
        assert run("pub", "c", "0", "--peer", address).returncode == 0
        typed = '{"@data-type": "count", "data": 7}\nnull\n'
        assert run_alone("pub", "b", "-", "--peer", address, stdin=typed).returncode == 0
        assert run("pub", "a", "plain text", "--raw", "--peer", address).returncode == 0
        output, _ = receiver.communicate()
        assert receiver.returncode == 0
    received = [json.loads(line) for line in output.splitlines()]
    assert [(each["topic"], each["value"]) for each in received] == [
        ("a/1", [1, 1.0, "x"]),
        ("b", {"@data-type": "count", "data": 7}),
        ("b", None),
        ("a", "plain text"),
    ]


def test_two_commands_can_talk_without_a_node():
    with started("sub", "t", "--listen", "127.0.0.1:0", "--count", "1") as receiver:
        address = receiver.stderr.readline().removeprefix("listening on ").strip()
        until(receiver, "subscribed")
        assert run("pub", "t", '{"a": 1}', "--peer", address).returncode == 0
        output, _ = receiver.communicate()
    assert output == 't {"a": 1}\n'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('1\n{"@data-type": "port", "data": 7}\n', "line 2 of stdin: 7 is no str"),
        ("1\n" + "9" * 5_000, "line 2 of stdin"),
    ],
)
def test_a_bad_line_is_named(line, reason):
    with node() as (_, address):
        failed = run_alone("pub", "t", "-", "--peer", address, stdin=line)
    assert failed.returncode == ExitCode.FAILED
    assert reason in failed.stderr


def test_a_topic_cannot_disturb_the_line():
    with node() as (_, address), started("sub", "a", "--count", "1", "--peer", address) as receiver:
        until(receiver, "subscribed")
        assert run("pub", "a b\n\x1b[2J", "1", "--peer", address).returncode == 0
        assert receiver.stdout.read() == '"a b\\n\\u001b[2J" 1\n'


def test_nobody_there_is_a_timeout_that_names_the_address():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        failed = run("pub", "t", "1", "--peer", address, "--wait", "0.2")
    assert failed.returncode == ExitCode.TIMEOUT
    assert address in failed.stderr


def test_no_message_in_time_is_a_timeout():
    failed = run("sub", "t", "--listen", "127.0.0.1:0", "--timeout", "0")
    assert failed.returncode == ExitCode.TIMEOUT
    assert "no message within 0 s" in failed.stderr


def test_whoever_has_read_enough_may_leave():
    with node() as (_, address), started("sub", "t", "--peer", address) as receiver:
        until(receiver, "subscribed")
        receiver.stdout.close()
        run_alone("pub", "t", "-", "--peer", address, stdin="1\n" * 100)
        assert receiver.wait() == 128 + signal.SIGPIPE
        assert receiver.stderr.read() == ""


def test_a_full_disk_is_one_sentence():
    command = [*COMMAND, "secret", "new"]
    with open("/dev/full", "w") as full:
        failed = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
        )
    assert failed.returncode == ExitCode.FAILED
    assert failed.stderr.startswith("peermesh: cannot use the input or output: No space left")
    assert failed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("pub", "t", "-"),
        ("store", "put", "table", "k", "-"),
        ("store", "load", "table", "-"),
    ],
)
def test_stdin_that_is_closed_is_no_empty_input(words):
    with node("--master", "table") as (_, address):
        closed = ["sh", "-c", 'exec "$@" <&-', "sh"]
        ended = subprocess.run(
            [*closed, *COMMAND, *words, "--peer", address],
            capture_output=True, text=True, cwd=ROOT, env=ENVIRONMENT, check=False,
        )  # fmt: skip
        said = "peermesh: stdin is closed, and - reads it; </dev/null is empty input\n"
        assert (ended.returncode, ended.stderr) == (ExitCode.FAILED, said)
        assert run("store", "keys", "table", "--peer", address).stdout == ""


def test_without_stdin_and_stdout_commands_say_what_is_missing_or_go_on():
    with node("--master", "table") as (_, address):
        closed = ["sh", "-c", 'exec "$@" <&- >&-', "sh", *COMMAND, "store"]
        for words, code, said in (
            (("lock", "table", "it", "true"), ExitCode.DONE, ""),
            (("put", "table", "a", "1"), ExitCode.FAILED, "peermesh: it is done, and its result"),
            (("get", "table", "a"), ExitCode.FAILED, "peermesh: it is done, and its result"),
            (("dump", "table", "-"), ExitCode.FAILED, "peermesh: stdout is closed"),
        ):
            ended = subprocess.run(
                [*closed, *words, "--peer", address],
                stderr=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT, check=False,
            )  # fmt: skip
            assert (ended.returncode, ended.stderr.startswith(said)) == (code, True), ended.stderr


# Stores.


def test_a_store_can_be_written_read_and_listed(tmp_path):
    with node("--master", f"table:{tmp_path / 'table.sqlite'}") as (_, address):
        at = ("--peer", address)
        first = run("store", "put", "table", '"a"', "[1, 2.0]", *at)
        second = run("store", "put", "table", "1", '{"@data-type": "port", "data": "53/udp"}', *at)
        assert int(second.stdout) > int(first.stdout)
        assert run("store", "get", "table", '"a"', *at).stdout == "[1, 2.0]\n"
        assert "53/udp" in run("store", "get", "table", "1", *at).stdout
        assert run("store", "put", "table", "b", "text", "--raw", *at).returncode == 0
        assert run("store", "get", "table", "b", "--raw", *at).stdout == "text\n"
        assert sorted(run("store", "keys", "table", *at).stdout.split()) == ['"a"', '"b"', "1"]
        missing = run("store", "get", "table", "1.0", *at)
        assert missing.returncode == ExitCode.FAILED
        assert "no key 1.0" in missing.stderr


def test_events_and_a_watch_tell_every_change():
    with (
        node("--master", "table") as (_, address),
        node("--clone", "table", "--peer", address) as (clone, _),
    ):
        # A master that is followed keeps what was done, for those who watch from earlier on.
        find_event(clone, "store_master_found")
        at = ("--peer", address)
        assert run("store", "put", "table", '"job/0"', "1", *at).returncode == 0
        with (
            started("store", "events", "table", "--json", "--count", "2", *at) as follower,
            started("store", "watch", "table", "--count", "2", *at) as watcher,
        ):
            until(follower, "following")
            until(watcher, "watching")
            assert run("store", "put", "table", '"job/0"', "2", *at).returncode == 0
            assert run("store", "put", "table", '"other"', "3", *at).returncode == 0
            events = [json.loads(line) for line in follower.communicate()[0].splitlines()]
            output, _ = watcher.communicate()
        assert follower.returncode == watcher.returncode == 0
        found = run("store", "scan", "table", "--prefix", '"job/"', "--json", *at)
        resumed = run("store", "watch", "table", "--from-revision", "2", "--count", "1", *at)
    assert resumed.stdout == '"job/0" 2\n'
    assert [(each["kind"], each["key"], each["before"], each["after"]) for each in events] == [
        ("update", "job/0", 1, 2),
        ("insert", "other", None, 3),
    ]
    assert events[0]["revision"] < events[1]["revision"]
    assert output.splitlines() == ['"job/0" 1', '"job/0" 2', '"other" 3']
    assert json.loads(found.stdout) == {"v": 1, "key": "job/0", "value": 2, "revision": 2}


def test_a_dump_is_loaded_into_another_store_and_a_damaged_one_into_none(tmp_path):
    path, short = tmp_path / "table.dump", tmp_path / "short.dump"
    with node("--master", "table", "--master", "copy") as (_, address):
        at = ("--peer", address)
        assert run("store", "put", "table", '"a"', '{"n": [1, 2]}', *at).returncode == 0
        assert run("store", "put", "table", "7", "8", "--expiry", "3600", *at).returncode == 0
        assert "2 entries" in run("store", "dump", "table", str(path), *at).stderr
        assert path.stat().st_mode & 0o777 == 0o600
        failed = run("store", "dump", "table", str(tmp_path), *at)
        assert (failed.returncode, failed.stderr.count("\n")) == (ExitCode.FAILED, 1)
        failed = run("store", "dump", "table", "/dev/full", *at)
        assert failed.returncode == ExitCode.FAILED
        assert "No space left" in failed.stderr
        assert "entries" not in failed.stderr
        short.write_bytes(path.read_bytes()[:-1])
        failed = run("store", "load", "copy", str(short), *at)
        assert failed.returncode == ExitCode.FAILED
        assert "breaks off" in failed.stderr
        assert run("store", "keys", "copy", *at).stdout == ""
        assert "2 entries" in run("store", "load", "copy", str(path), *at).stderr
        found = run("store", "scan", "copy", "--json", *at).stdout.splitlines()
        again = run("store", "load", "copy", str(path), *at)
        assert (again.returncode, "--over" in again.stderr) == (ExitCode.FAILED, True)
        assert run("store", "load", "copy", str(path), "--over", *at).returncode == 0
    entries = [json.loads(line) for line in found]
    assert [(each["key"], each["value"]) for each in entries] == [(7, 8), ("a", {"n": [1, 2]})]
    assert "expires_at" in entries[0]


def test_a_store_without_master_is_a_timeout():
    with node() as (_, address):
        failed = run("store", "keys", "table", "--peer", address, "--wait", "0.5")
    assert failed.returncode == ExitCode.TIMEOUT
    assert "table" in failed.stderr


def test_a_second_hop_does():
    with (
        node("--master", "table") as (_, far),
        node("--peer", far) as (near_node, near),
    ):
        find_event(near_node, "peer_added")
        assert run("store", "put", "table", "1", "2", "--peer", near).returncode == 0
        assert run("store", "get", "table", "1", "--peer", far).stdout == "2\n"


def test_what_was_acknowledged_survives_sigkill(tmp_path):
    master = f"table:{tmp_path / 'table.sqlite'}"
    with node("--master", master) as (process, address):
        assert run("store", "put", "table", '"a"', "1", "--peer", address).returncode == 0
        process.kill()
        process.wait()
    with node("--master", master) as (_, address):
        assert run("store", "get", "table", '"a"', "--peer", address).stdout == "1\n"


# The way in, and the way out.


def test_a_shared_secret_opens_the_mesh_and_nothing_else_does(tmp_path):
    file = tmp_path / "secret"
    ClusterSecret.generate().save(file)
    text = ClusterSecret.from_file(file).text()
    with node("--master", "table", PEERMESH_SECRET=text) as (_, address):
        at = ("--peer", address, "--wait", "30")
        assert run("store", "put", "table", "1", "2", *at, "--secret-file", str(file)).stdout
        assert run("store", "get", "table", "1", *at, PEERMESH_SECRET=text).stdout == "2\n"
        refused = run("store", "get", "table", "1", "--peer", address, "--wait", "0.5")
        assert refused.returncode == ExitCode.TIMEOUT
        stranger = ClusterSecret.generate().text()
        refused = run("store", "get", "table", "1", "--peer", address, "--wait", "3",
                      PEERMESH_SECRET=stranger)  # fmt: skip
        assert refused.returncode == ExitCode.TIMEOUT
        assert "secret" in refused.stderr


def test_plain_tcp_beyond_this_machine_says_how_to_be_secure():
    failed = run_alone("node", "--listen", "0.0.0.0:0")
    assert failed.returncode == ExitCode.FAILED
    assert "--secret-file" in failed.stderr


def test_a_bad_secret_is_not_repeated():
    failed = run("pub", "t", "1", "--peer", "127.0.0.1:1", PEERMESH_SECRET="peermesh-secret-oops")
    assert failed.returncode == ExitCode.FAILED
    assert "oops" not in failed.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_node_in_order(number, request):
    # What is ignored here, as under nohup, would be ignored by the node.
    request.addfinalizer(partial(signal.signal, number, signal.signal(number, signal.SIG_DFL)))
    with node("--master", "table") as (process, _):
        process.send_signal(number)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (128 + number, "")


def test_a_signal_ends_a_command_that_reads_stdin():
    with node() as (listener, address), started("pub", "t", "-", "--peer", address) as process:
        find_event(listener, "peer_added")
        process.send_signal(signal.SIGINT)
        assert process.wait() == ExitCode.INTERRUPTED
        assert process.stderr.read() == ""


GATEWAY = """
import os

class Printing:
    def __init__(self, word):
        self.word = word
    def attach(self, port):
        # One write: the command prints from another thread at the same time.
        os.write(1, f"{self.word}\\n".encode())
    def receive(self, message):
        pass
"""


def test_a_broker_of_modules_follows_its_file_and_ends_in_order(tmp_path: Path) -> None:
    (tmp_path / "cli_gateway.py").write_text(GATEWAY)
    layout = tmp_path / "bus.toml"
    module = "[modules.{0}]\nclass = 'cli_gateway:Printing'\narguments = {{ word = '{0}' }}\n"
    layout.write_text(module.format("one"))
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    checked = run("broker", "modules", str(layout), "--check", "--json")
    assert json.loads(checked.stdout) == {
        "v": 1, "event": "added", "module": "one", "made_of": "cli_gateway:Printing"
    }  # fmt: skip
    with started("broker", "modules", str(layout), PYTHONPATH=path) as process:
        lines = iter(process.stdout.readline, "")
        assert {next(lines), next(lines)} == {"+ module one: cli_gateway:Printing\n", "one\n"}
        layout.write_text("modules = 1")
        process.send_signal(signal.SIGHUP)
        assert "nothing was changed" in process.stderr.readline()
        layout.write_text(module.format("two"))
        process.send_signal(signal.SIGHUP)
        assert {next(lines), next(lines), next(lines)} == {
            "- module one\n", "+ module two: cli_gateway:Printing\n", "two\n"
        }  # fmt: skip
        process.send_signal(signal.SIGTERM)
        assert process.wait(limit()) == 128 + signal.SIGTERM
        assert process.stderr.read() == ""
    assert run("broker", "modules", str(tmp_path / "nothing.toml")).returncode == ExitCode.USAGE


def test_replicas_are_compared_and_a_clone_is_promoted(tmp_path):
    path = tmp_path / "promoted.db"
    with node("--master", "s", "--name", "first") as (master, address):
        clone_options = ("--peer", address, "--clone", f"s:{path}", "--name", "second")
        with node(*clone_options) as (clone, clone_address):
            assert run("store", "put", "s", "1", "2", "--peer", clone_address).returncode == 0
            verified = run("store", "verify", "s", "--json", "--peer", address)
            lines = [json.loads(line) for line in verified.stdout.splitlines()]
            assert verified.returncode == 0
            assert [line["revision"] for line in lines] == [1, 1, 1]
            assert len({line["digest"] for line in lines}) == 1
            assert lines[0]["name"] == "first"
            assert {line["name"].partition("~")[0] for line in lines[1:]} == {"second", "cli"}
            shown = run("store", "verify", "s", "--peer", address).stdout
            assert f"first {lines[0]['replica']} {lines[0]['digest']} master" in shown
            described = run("describe", "first", "--peer", address).stdout
            (second,) = (each["replica"] for each in lines if each["name"] == "second")
            assert f"'endpoint': 'second ({second.partition('/')[0]})'" in described
            refused = run("store", "promote", "s", "--peer", clone_address)
            assert refused.returncode == ExitCode.FAILED
            assert "its master is alive" in refused.stderr
            wrong = run("store", "promote", "s", "--peer", address, "--wait", "0.5")
            assert wrong.returncode == ExitCode.FAILED
            assert "offers no copy of the store s" in wrong.stderr
            master.kill()
            find_event(clone, "store_master_lost")
            promoted = run("store", "promote", "s", "--peer", clone_address)
            assert "leads s in term 1, from revision 1" in promoted.stdout
            assert run("store", "get", "s", "1", "--peer", clone_address).stdout == "2\n"
    assert path.exists()
