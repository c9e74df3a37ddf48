"""No secret appears anywhere but where it was put: one table of places, each searched for all.

To add a place, write a function that gives the text that somebody may see there, and put ``@place``
before it. ``test_complete.py`` says what else has to be there. The demo, with Spark in it, is
searched where a whole run of it is tested.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
import trio

from endpoint.settings import Settings
from handshake.credentials import Credentials
from handshake.exposure import Protection
from handshake.secret import ClusterSecret
from handshake.ticket import JoinTicket
from peermesh import Backend, Endpoint, StatusCode, blocking
from peermesh.brokers.edge import EdgeBroker, RemoteRegistry
from peermesh.brokers.edge.line import make_network
from peermesh.gateways import serve_webhdfs
from peermesh.gateways.access import Access
from peermesh.spark.configuration import spark_conf
from peermesh.spark.options import MeshAddress
from peermesh.testing.time_limits import limit
from stores.disk.ballot import SUFFIX as BALLOT, BallotFile
from stores.disk.medium import PrivateMedium
from stores.disk.seals import Vault
from stores.disk.store_keys import keys_from_environment, keys_from_file, write_new_key
from stores.sealing import Session, StorageKey, StorageKeys
from tests.stores.disk.files import GROUP, MEMBER, StoreFile, sealed_log, sealed_store
from wire.errors import MeshError

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "peermesh.cli"]
OTHERS = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}

Place = Callable[..., str | Awaitable[str]]

PLACES: dict[str, Place] = {}
"""What gives the text that somebody may see, by the name of the place."""


def place(function: Place) -> Place:
    PLACES[function.__name__] = function
    return function


def printed(*things: object) -> str:
    """Give what printing and formatting show, of things and of what they are made of."""
    shown = [f"{thing!r} {thing} {[thing]}" for thing in things]
    parts = [repr(part) for thing in things for part in getattr(thing, "__dict__", {}).values()]
    # A string that an object keeps for itself is no way out of it; an object in it may be.
    return "\n".join([*shown, *(part for part in parts if not part.startswith(("'", "b'")))])


def tracebacks(*calls: Callable[[], object]) -> str:
    """Give what calls that are refused leave in a log."""
    seen = []
    for call in calls:
        try:
            call()
        except (MeshError, ValueError, TypeError, OSError) as error:
            seen.append("".join(traceback.format_exception(error)))
        else:
            raise AssertionError(f"{call} was not refused")
    return "\n".join(seen)


def run(says: str, *arguments: object, **environment: str) -> str:
    """Run a command to its end; gives all that it wrote, with what it has to say among it."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**OTHERS, **environment},
        check=False,
    )
    assert says in done.stdout + done.stderr, done
    return done.stdout + done.stderr


# -- the table -----------------------------------------------------------------------------------


@place
def printed_objects(planted, tmp_path):
    url = ("127.0.0.1", 1)
    session = Session(1, planted.key, b"f" * 16, b"s" * 32)
    session.begin(b"chance")
    with blocking.Endpoint(credentials=planted.credentials) as endpoint:
        shown = printed(endpoint)
    return shown + printed(
        planted.cluster,
        planted.credentials,
        planted.ticket,
        Settings(secret=planted.cluster),
        planted.key,
        planted.ring,
        planted.ring.keys,
        session,
        Vault("path", planted.ring),
        sealed_store(tmp_path / "s.db", planted.ring),
        sealed_log(tmp_path / "l.db", planted.ring),
        Access("10.0.0.1", planted.token, Protection.TLS),
        Endpoint(credentials=planted.credentials),
        EdgeBroker(RemoteRegistry([url]), network=make_network(planted.credentials)),
        RemoteRegistry([url], credentials=planted.credentials),
        MeshAddress((url,), str(planted.secret_file)),
    )


@place
def errors_and_tracebacks(planted, tmp_path):
    open_file = tmp_path / "open"
    open_file.write_text(planted.key.text())
    open_file.chmod(0o644)
    wrong = StorageKeys((StorageKey(bytes(32)),))
    encrypted, secret, key = tmp_path / "s.db", planted.cluster.text(), planted.key.text()
    backend = sealed_store(encrypted, planted.ring, name="one")
    backend.open()
    backend.close()
    return tracebacks(
        lambda: ClusterSecret.parse(f"{secret}a"),
        lambda: ClusterSecret.parse(secret.partition("-")[2]),
        lambda: ClusterSecret(planted.cluster.key + b"a"),
        lambda: ClusterSecret.from_environment({"PEERMESH_SECRET": f"{secret}a"}),
        lambda: Credentials.from_files(planted.secret_file, planted.key_file, planted.token_file),
        lambda: Endpoint(secrets=secret),
        lambda: Endpoint(secret=f"{secret}a"),
        lambda: JoinTicket.parse(f"{planted.ticket.text()}a"),
        lambda: JoinTicket.parse(planted.ticket.text().replace(":1/", ":")),
        lambda: Credentials.from_files(*planted.certificate),
        lambda: Credentials.from_files(*planted.certificate, f"{planted.passphrase}a"),
        lambda: StorageKey.parse(f"{key}a"),
        lambda: StorageKey(planted.key.key + b"a"),
        lambda: StorageKeys.parse(f"{key}, {key[:-1]}"),
        lambda: keys_from_environment({"PEERMESH_STORE_KEYS": key.partition("-")[2]}),
        lambda: keys_from_file(open_file),
        lambda: write_new_key(open_file),
        lambda: sealed_store(encrypted, wrong).open(),
        lambda: sealed_store(encrypted, planted.ring, name="two").open(),
        lambda: StoreFile(encrypted).open(),
        lambda: Access("10.0.0.1", f"{planted.token} and a blank", Protection.TLS),
    )


@place
async def a_mesh_with_strangers(planted, tmp_path, caplog):
    """Logs, status events, statistics, flight records: of members, strangers, and what is plain."""
    stranger = Credentials.from_secret(ClusterSecret.generate(), "stranger")
    seen: list[object] = []
    async with (
        Endpoint(credentials=planted.credentials) as here,
        Endpoint(credentials=planted.credentials) as there,
        Endpoint(credentials=stranger) as outside,
        Endpoint() as plain,
    ):
        status = [each.subscribe_status() for each in (here, there, outside, plain)]
        options = {"path": tmp_path / "mesh.db", "keys": planted.ring}
        store = await here.attach_master("cities", Backend.SQLite, **options)
        log = await here.attach_log("log", backend=Backend.SQLite, path=tmp_path / "l.db")
        port = await here.listen()
        assert await there.peer("127.0.0.1", port, timeout=limit())
        for other in (outside, plain):
            assert not await other.peer("127.0.0.1", port, retry=0)
        clone = await there.attach_clone("cities")
        await (await clone.put("vienna", 48.2)).applied()
        for each in (here, there, outside, plain):
            seen += [each, each.statistics(), each.peers(), *each.loop.flight.records()]
        told = [await status[0].get()]
        while sum(event.status is StatusCode.PEER_UNAVAILABLE for event in told) < 2:
            told.append(await status[0].get())
        for each in status[1:]:
            events = each.poll()
            assert events, "it has met somebody, or was refused"
            told += events
        seen += told
        seen += [store, clone, log, await clone.verify(), here.loop]
    return printed(*seen) + caplog.text


@place
async def answers_of_the_gateway(planted, tmp_path, caplog):
    async with Endpoint() as endpoint, endpoint.attach_master("files") as store:
        async with serve_webhdfs(store, token=planted.token) as gateway:
            wrong = {"Authorization": f"Bearer {planted.token}a"}
            right = {"Authorization": f"Bearer {planted.token}"}

            def ask() -> list[str]:
                seen = []
                for method, path, headers in (
                    ("GET", "/webhdfs/v1/?op=LISTSTATUS", {}),
                    ("GET", "/webhdfs/v1/?op=LISTSTATUS", wrong),
                    ("GET", "/webhdfs/v1/?op=LISTSTATUS", right),
                    ("GET", "/webhdfs/v1/none?op=GETFILESTATUS", right),
                    ("GET", "/webhdfs/v1/?op=NONSENSE", right),
                    ("PUT", "/webhdfs/v1/file?op=CREATE", right),
                    ("POST", "/token", {}),
                ):
                    connection = http.client.HTTPConnection(gateway.host, gateway.port)
                    connection.request(method, path, headers=headers)
                    answer = connection.getresponse()
                    seen.append(f"{answer.status} {answer.getheaders()} {answer.read()!r}")
                    connection.close()
                return seen

            answers = await trio.to_thread.run_sync(ask)
            assert "200" in answers[2]
            return "\n".join(answers) + printed(gateway, gateway.statistics()) + caplog.text


@place
def settings_of_spark(planted):
    settings = spark_conf("10.0.0.1:9870", token=planted.token)
    redaction = settings["spark.redaction.regex"]
    # As Spark's page of the environment does: by the name of a setting, or by its value.
    page = {
        key: value
        for key, value in settings.items()
        if not re.search(redaction, key) and not re.search(redaction, value)
    }
    assert planted.token in settings.values()
    assert len(page) > 3
    return printed(settings, settings | {"more": "1"}, page)


@place
def commands_about_keys(planted, tmp_path):
    store = tmp_path / "s.db"
    backend = sealed_store(store, planted.ring)
    backend.open()
    with closing(BallotFile(PrivateMedium(f"{store}{BALLOT}"), planted.ring)) as ballot:
        ballot.create(MEMBER, GROUP)
    given, done = ("--key-file", planted.key_file), f"{store} is under key "
    in_use = run("one replica at a time", "store", "rekey", store, *given)
    backend.close()
    return "\n".join(
        [
            in_use,
            run(done, "store", "rekey", store, *given),
            run('"file"', "store", "rekey", store, *given, "--json"),
            run(done, "store", "rekey", store, **planted.environment),
            run("is not there", "store", "rekey", tmp_path / "none", *given),
            run("begins with", "store", "rekey", store, "--key-file", planted.secret_file),
            run("mistyped", "store", "rekey", store, PEERMESH_STORE_KEYS=f"{planted.key.text()}a"),
            run("", "store", "new-key", planted.key_file),
            run("begins with", "store", "new-key", planted.secret_file),
        ]
    )


@place
def commands_that_fail(planted):
    """Join with what is none, or reach nobody; with all secrets in the environment."""
    mistyped = {"PEERMESH_SECRET": f"{planted.cluster.text()}a"}
    wait = ("--wait", f"{limit(0.2):g}")  # long enough to be refused once
    nobody = ("--peer", "127.0.0.1:1", *wait)
    names = ("--certificate", "--certificate-key", "--authority")
    trusted = [word for pair in zip(names, planted.certificate, strict=True) for word in pair]
    silence, typo = "nobody answers at 127.0.0.1:1", f"{planted.ticket.text()}a"
    other = {"PEERMESH_PASSPHRASE": f"{planted.passphrase}a"}
    return "\n".join(
        [
            run(silence, "pub", "/t", "1", *nobody, **planted.environment),
            run(silence, "store", "get", "s", "1", *nobody, **planted.environment),
            run(silence, "log", "offsets", "l", *nobody, "--secret-file", planted.secret_file),
            run("mistyped", "sub", "/t", *nobody, **mistyped),
            run("begins with", "sub", "/t", *nobody, "--secret-file", planted.key_file),
            run(silence, "spark", "jobs", "s", *nobody, **planted.environment),
            run(silence, "sub", "/t", *trusted, *nobody, **planted.environment_of_certificate),
            run("does not open with this passphrase", "sub", "/t", *trusted, *nobody, **other),
            run(silence, "sub", "/t", "--peer", planted.ticket.text(), *wait),
            run("mistyped", "sub", "/t", "--peer", typo, *wait),
            run("holds no certificate", "certs", "show", planted.certificate[1]),
        ]
    )


@place
def commands_that_stay(planted, tmp_path):
    """What they write, as text and as JSON, and what ``ps`` shows of them."""
    seen = []
    kept = f"cities:{tmp_path / 'cities.db'}"
    secret, listens = ("--secret-file", planted.secret_file), ("--listen", "127.0.0.1:0")
    gateway = ("--http", "127.0.0.1:0", "--token-file", planted.token_file)
    for arguments in (
        ("node", *listens, "--master", kept, "--json"),
        ("node", *listens, *secret, "--master", kept),
        ("serve", "webhdfs", "--store", kept, *gateway, "--json"),
        ("log", "keep", "log", *listens, "--path", tmp_path / "log.db"),
    ):
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env={**OTHERS, **planted.environment},
        )
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                seen.append(line)
                if re.search(r"listening|serving|keeping", line):
                    break
            seen.append(Path(f"/proc/{process.pid}/cmdline").read_text())
            process.terminate()
            seen += process.stdout
        assert re.search(r"listening|serving|keeping", "".join(seen[-3:])), seen
    return "\n".join(seen)


FAILING = """
async def test_it(cluster):
    ring = await cluster(2, "line")
    master = await ring["a"].attach_master("cities")
    await (await master.put("vienna", 48.2)).applied()
    assert await master.get("vienna") is None
"""


@place
def reports_of_failing_tests(planted, tmp_path):
    """The report in a terminal, the page, the flight records, and what the processes wrote."""
    (tmp_path / "test_it.py").write_text(FAILING)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\n")
    options = ("--peermesh-timeline=pages", "--peermesh-world=loopback,process", "-vv")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "peermesh.testing.plugin", *options],
        cwd=tmp_path,
        env={**os.environ, **planted.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "who knows whom" in done.stdout, done.stdout
    pages = [page.read_text() for page in (tmp_path / "pages").iterdir()]
    assert len(pages) == 2
    return "\n".join([done.stdout, done.stderr, *pages])


# -- the search ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLACES)
async def test_no_secret_is_to_be_seen(name, planted, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    given = {"planted": planted, "tmp_path": tmp_path, "caplog": caplog}
    function = PLACES[name]
    wanted = function.__code__.co_varnames[: function.__code__.co_argcount]
    call = partial(function, **{argument: given[argument] for argument in wanted})
    text = await (call() if iscoroutinefunction(function) else trio.to_thread.run_sync(call))
    assert len(text) > 100, "nothing was looked at"
    assert planted.find_in(text) == []


def test_the_search_finds_what_is_there(planted):
    passphrase = planted.passphrase.encode()
    for raw in (planted.cluster.key, planted.key.key, planted.token.encode(), passphrase):
        for text in (
            f"the value is {raw.hex()}.",
            repr([raw]),
            json.dumps(list(raw)),
            *(base64.b64encode(b"x" * shift + raw).decode() for shift in range(3)),
        ):
            assert planted.find_in(text), text
    for text in (planted.cluster.text(), planted.key.text().upper(), planted.token):
        assert planted.find_in(f"<{text}>"), text
