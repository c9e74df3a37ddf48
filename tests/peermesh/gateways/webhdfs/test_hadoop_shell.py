"""Hadoop's shell at a gateway, over plain HTTP and TLS, and with the first gateway dead."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from handshake.credentials import Credentials
from handshake.issuing import KeyKind, OwnAuthority
from handshake.keyfiles import load_certificates, load_key
from peermesh import blocking
from peermesh.spark.configuration import KeyStore, spark_conf
from tests.peermesh.gateways.webhdfs.hadoop import Hadoop, hadoop

pytestmark = pytest.mark.spark

pytest.importorskip("pyspark")

TOKEN = "a-token-of-some-length"
PASSWORD = "a-password"
ONE, TWO = "127.0.0.2", "127.0.0.3"
HOSTS = {
    "localhost": ["127.0.0.1"],
    socket.gethostname(): ["127.0.0.1"],
    "one.test": [ONE],
    "two.test": [TWO],
    "gateways.test": [ONE, TWO],
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with hadoop(tmp_path_factory.mktemp("jvm"), HOSTS) as found:
        yield found


@pytest.fixture(scope="module")
def store() -> Iterator[blocking.Store]:
    with blocking.Endpoint() as endpoint, endpoint.attach_master("files") as store:
        yield store


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority's certificate, and those of a gateway and of a client of it."""
    folder = tmp_path_factory.mktemp("authority")
    now = datetime.now(UTC)
    valid = now - timedelta(days=1), now + timedelta(days=1)
    made = OwnAuthority.create("mesh", valid, KeyKind.P256)
    made.own.save(folder, "authority")
    for name in ("gateway", "client"):
        hosts = ["one.test", "two.test", "gateways.test"]
        made.issue(name, valid, hosts, KeyKind.P256).save(folder, name)
    return folder


def credentials(authority: Path) -> Credentials:
    return Credentials.from_files(
        authority / "gateway.pem", authority / "gateway.key", authority / "authority.pem"
    )


@pytest.fixture(scope="module")
def tls(authority: Path) -> KeyStore:
    """The key store of a client, made as the documents say."""
    (certificate, *_) = load_certificates(authority / "client.pem", "client")
    key = load_key(authority / "client.key", None)
    file = authority / "client.p12"
    lock = serialization.BestAvailableEncryption(PASSWORD.encode())
    file.write_bytes(
        serialize_key_and_certificates(b"client", key, certificate, None, lock)  # type: ignore[arg-type]  # it is a key of P-256
    )
    subprocess.run(
        ["keytool", "-importcert", "-noprompt", "-alias", "authority",
         "-file", str(authority / "authority.pem"),
         "-keystore", str(file), "-storepass", PASSWORD],
        check=True, capture_output=True,
    )  # fmt: skip
    return KeyStore(str(file), PASSWORD)


LINES = "one\ntwo\nthree\n"


def commands(base: str, folder: Path) -> Iterator[tuple[str, int, str]]:
    """Give the commands of the shell, each with its code, and a part of what it writes."""
    file, table = folder / "lines", f"{base}/d/t"
    yield f"-mkdir -p {base}/d/e", 0, ""
    yield f"-put {file} {base}/d/lines", 0, ""
    yield f"-copyFromLocal {file} {base}/d/again", 0, ""
    yield f"-put -f {file} {base}/d/again", 0, ""
    yield f"-moveFromLocal {folder}/moved {base}/d/moved", 0, ""
    yield f"-ls {base}/d", 0, "Found 4 items"
    yield f"-ls -R {base}/", 0, "/d/e"
    yield f"-cat {base}/d/lines", 0, LINES
    yield f"-text {base}/d/lines", 0, LINES
    yield f"-head {base}/d/lines", 0, LINES
    yield f"-tail {base}/d/lines", 0, "three"
    yield f"-get {base}/d/lines {folder}/got", 0, ""
    yield f"-copyToLocal {base}/d/again {folder}/got-again", 0, ""
    yield f"-getmerge {base}/d/lines {base}/d/again {folder}/merged", 0, ""
    yield f"-appendToFile {file} {base}/d/again", 0, ""
    yield f"-stat %b {base}/d/again", 0, str(2 * len(LINES))
    yield f"-truncate -w {len(LINES)} {base}/d/again", 0, "Truncated"
    yield f"-checksum {base}/d/lines {base}/d/again", 0, "MD5-of-0MD5-of-512CRC32"
    yield f"-cp {base}/d/lines {base}/d/copy", 0, ""
    yield f"-mv {base}/d/copy {base}/d/e/copy", 0, ""
    yield f"-touchz {base}/d/empty", 0, ""
    yield f"-touch -t 20260101:000000 {base}/d/touched", 0, ""
    yield f"-stat %Y {base}/d/touched", 0, "17672"
    yield f"-concat {base}/d/e/copy {base}/d/again {base}/d/empty", 0, ""
    yield f"-chmod 640 {base}/d/lines", 0, ""
    yield f"-chown ada:staff {base}/d/lines", 0, ""
    yield f"-chgrp -R crew {base}/d", 0, ""
    yield f"-setrep 3 {base}/d/lines", 0, "Replication 3 set"
    yield f"-stat %a,%u,%g,%r {base}/d/lines", 0, "640,ada,crew,3"
    yield f"-test -e {base}/d/again", 1, ""
    yield f"-test -d {base}/d/e", 0, ""
    yield f"-du -s {base}/d", 0, str(3 * len(LINES) + 5)
    yield f"-count {base}/d", 0, " 2            4 "
    yield f"-count -q {base}/d", 0, "none"
    yield f"-df {base}/", 0, "Filesystem"
    yield f"-find {base}/ -name lin*", 0, f"{base}/d/lines"
    yield f"-getfacl {base}/d/lines", 0, "# owner: ada"
    yield f"-getfattr -d {base}/d/lines", 0, "# file:"
    yield f"-put {file} {table}=K\u00f6ln", 0, ""
    yield f"-cat {table}=K\u00f6ln", 0, "three"
    yield f"-rm {base}/d/moved", 0, ""  # told in the log alone
    yield f"-find {base}/ -name moved", 0, "/.Trash/Current/d/moved"
    yield f"-expunge -immediate -fs {base}/", 0, ""
    yield f"-count {base}/user", 0, " 0  "
    yield f"-rmdir {base}/d/e", 1, "not empty"
    yield f"-rm -r -skipTrash {base}/d", 0, "Deleted"
    yield f"-ls {base}/d", 1, "No such file"


def try_commands(client: Hadoop, settings: dict[str, str], base: str, folder: Path) -> None:
    folder.mkdir()
    settings = settings | {"spark.hadoop.fs.trash.interval": "60"}
    (folder / "lines").write_text(LINES)
    (folder / "moved").write_text("moved")
    wrong = []
    for line, code, part in commands(base, folder):
        found, written = client.shell(settings, *line.split(" "))
        if found != code or part not in written or "Fatal internal error" in written:
            wrong.append(f"{line}: {found}\n{written}")
    assert not wrong, "\n".join(wrong)
    assert (folder / "merged").read_text() == LINES + LINES
    assert (folder / "got").read_text() == LINES
    assert not (folder / "moved").exists()


def test_the_shell_of_hadoop_works(client, store, tmp_path) -> None:
    with blocking.serve_webhdfs(store) as gateway:
        settings = spark_conf(gateway.address)
        try_commands(client, settings, f"webhdfs://{gateway.address}", tmp_path / "plain")


def test_the_shell_of_hadoop_works_over_tls(client, store, authority, tls, tmp_path) -> None:
    own = credentials(authority)
    with blocking.serve_webhdfs(store, host=ONE, credentials=own) as gateway:
        settings = spark_conf(f"one.test:{gateway.port}", tls=tls)
        assert PASSWORD not in repr(settings)
        base = f"swebhdfs://one.test:{gateway.port}"
        try_commands(client, settings, base, tmp_path / "tls")
        code, written = client.shell(settings, "-ls", f"mesh://one.test:{gateway.port}/")
        assert code == 0, written


NAMES = ("one.test", "two.test", "gateways.test")
UNCACHED = {
    f"spark.hadoop.fs.{each}.impl.disable.cache": "true" for each in ("webhdfs", "swebhdfs")
}


def test_a_token_comes_past_a_first_gateway_that_is_dead(client, store) -> None:
    """With the address of the first gateway no token comes: the name of all is needed."""
    with blocking.serve_webhdfs(
        store, host=TWO, token=TOKEN, names=NAMES, allow_plain=True
    ) as gateway:
        port = gateway.port
        settings = UNCACHED | spark_conf(
            f"one.test:{port}",
            f"two.test:{port}",
            token=TOKEN,
            token_host=f"gateways.test:{port}",
        )
        code, written = client.shell(settings, "-mkdir", "-p", "webhdfs://mesh/there")
        assert code == 0, written
        refresh = "spark.hadoop.dfs.webhdfs.oauth2.refresh.url"
        alone = {**settings, refresh: settings[refresh].replace("gateways.test", "one.test")}
        code, written = client.shell(alone, "-ls", "webhdfs://mesh/")
        assert code != 0
        assert "Unable to obtain access token" in written


def test_a_certificate_is_shown_past_a_first_gateway_that_is_dead(
    client, store, authority, tls
) -> None:
    with blocking.serve_webhdfs(store, host=TWO, credentials=credentials(authority)) as gateway:
        places = [f"{name}:{gateway.port}" for name in ("one.test", "two.test")]
        settings = UNCACHED | spark_conf(*places, tls=tls)
        code, written = client.shell(settings, "-mkdir", "-p", "swebhdfs://mesh/secure")
        assert code == 0, written
        for name in ("truststore", "keystore"):
            other = {**settings, f"spark.hadoop.ssl.client.{name}.location": "/dev/null"}
            assert client.shell(other, "-ls", "swebhdfs://mesh/")[0] != 0
