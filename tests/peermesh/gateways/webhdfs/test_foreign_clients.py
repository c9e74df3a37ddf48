"""Clients from the package index at a gateway: fsspec, what stands on it, hdfs; and curl."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from peermesh import blocking
from peermesh.gateways import WebHDFSGateway

fsspec = pytest.importorskip("fsspec")
hdfs = pytest.importorskip("hdfs")

MIB = 1 << 20
ROWS = 20_000


@pytest.fixture(scope="module")
def gateway() -> Iterator[WebHDFSGateway]:
    with (
        blocking.Endpoint() as endpoint,
        endpoint.attach_master("files") as store,
        blocking.serve_webhdfs(store) as gateway,
    ):
        yield gateway


@pytest.fixture
def files(gateway: WebHDFSGateway) -> Any:
    return fsspec.filesystem(
        "webhdfs", host=gateway.host, port=gateway.port, user="ada", skip_instance_cache=True
    )


@pytest.fixture
def base(gateway: WebHDFSGateway) -> str:
    return f"webhdfs://ada@{gateway.address}"


def test_fsspec_writes_reads_and_asks(files: Any) -> None:
    content = bytes(range(256)) * 50_000  # 12.8 MB, which fsspec appends in three pieces
    files.pipe("/fs/large", content)
    assert files.cat("/fs/large") == content
    assert files.cat_file("/fs/large", start=7 * MIB, end=7 * MIB + 9) == content[7 * MIB :][:9]
    assert files.info("/fs/large")["size"] == len(content)
    with files.open("/fs/K\u00f6ln 100%", "wb") as stream:
        stream.write(b"some")
    assert files.cat("/fs/K\u00f6ln 100%") == b"some"
    files.cp_file("/fs/large", "/fs/copy")
    assert files.ukey("/fs/large") == files.ukey("/fs/copy")
    files.touch("/fs/empty")
    files.mv("/fs/copy", "/fs/moved")
    assert files.ls("/fs") == ["/fs/K\u00f6ln 100%", "/fs/empty", "/fs/large", "/fs/moved"]
    assert files.content_summary("/fs")["fileCount"] == 4
    assert sorted(files.find("/")) == files.ls("/fs")
    files.chmod("/fs/empty", "600")
    files.chown("/fs/empty", owner="bo", group="staff")
    files.set_replication("/fs/empty", 2)
    info = files.info("/fs/empty")
    assert (info["permission"], info["owner"], info["group"]) == ("600", "bo", "staff")
    files.rm("/fs", recursive=True)
    assert not files.exists("/fs/large")


def test_what_fsspec_forgets_to_append_is_appended_where_it_is_told(files: Any) -> None:
    files.pipe("/fs/log", b"one\n")
    with files.open("/fs/log", "ab") as stream:
        stream.write(b"two\n")
        asked = files._call("APPEND", "POST", "/fs/log", redirect=False)
        stream.location = asked.headers["Location"]  # As fsspec does in the mode "wb" alone.
    assert files.cat("/fs/log") == b"one\ntwo\n"


def test_pandas_writes_and_reads_tables(base: str) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"n": range(ROWS), "word": [f"w{n % 7}" for n in range(ROWS)]})
    table.to_csv(f"{base}/pandas/table.csv", index=False)
    assert pandas.read_csv(f"{base}/pandas/table.csv").equals(table)
    table.to_parquet(f"{base}/pandas/table.parquet")
    assert pandas.read_parquet(f"{base}/pandas/table.parquet")["n"].sum() == sum(range(ROWS))


def test_polars_writes_and_reads_tables(files: Any) -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"n": range(ROWS), "word": [f"w{n % 7}" for n in range(ROWS)]})
    with files.open("/polars/table.parquet", "wb") as stream:
        table.write_parquet(stream)
    with files.open("/polars/table.parquet", "rb") as stream:
        assert polars.read_parquet(stream).equals(table)
    with files.open("/polars/table.csv", "wb") as stream:
        table.write_csv(stream)
    with files.open("/polars/table.csv", "rb") as stream:
        assert polars.read_csv(stream).equals(table)


def test_duckdb_writes_and_reads_tables(files: Any, base: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        place = f"{base}/duckdb/table.parquet"
        connection.execute(f"COPY (SELECT range AS n FROM range({ROWS})) TO '{place}'")
        found = connection.execute(f"SELECT count(*), sum(n) FROM '{place}'").fetchone()
        assert found == (ROWS, sum(range(ROWS)))


def test_the_client_of_hdfs_from_the_package_index_works(gateway: WebHDFSGateway, tmp_path) -> None:
    client = hdfs.InsecureClient(f"http://{gateway.address}", user="ada")
    client.write("/hdfs/file", b"one\n", overwrite=True)
    client.write("/hdfs/file", b"two\n", append=True)
    with client.read("/hdfs/file") as reader:
        assert reader.read() == b"one\ntwo\n"
    assert client.list("/hdfs") == ["file"]
    assert client.content("/hdfs")["length"] == 8
    assert client.checksum("/hdfs/file")["algorithm"].endswith("CRC32")
    client.set_permission("/hdfs/file", "640")
    client.set_owner("/hdfs/file", owner="bo")
    client.set_times("/hdfs/file", modification_time=5_000)
    client.set_replication("/hdfs/file", 2)
    status = client.status("/hdfs/file")
    assert (status["permission"], status["owner"]) == ("640", "bo")
    assert (status["modificationTime"], status["replication"]) == (5_000, 2)
    assert client.acl_status("/hdfs/file")["owner"] == "bo"
    client.makedirs("/hdfs/d")
    client.rename("/hdfs/file", "/hdfs/d")
    (tmp_path / "local").write_bytes(bytes(3 * MIB))
    client.upload("/hdfs/d", str(tmp_path / "local"))
    client.download("/hdfs/d", str(tmp_path / "there"), n_threads=2)
    assert (tmp_path / "there" / "local").read_bytes() == bytes(3 * MIB)
    assert [path for path, *_ in client.walk("/hdfs")] == ["/hdfs", "/hdfs/d"]
    assert client.delete("/hdfs", recursive=True)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_writes_appends_and_reads(gateway: WebHDFSGateway, tmp_path) -> None:
    (tmp_path / "file").write_bytes(bytes(3 * MIB))
    root = f"http://{gateway.address}/webhdfs/v1/curl/K\u00f6ln"

    def curl(*arguments: str) -> bytes:
        command = ["curl", "--silent", "--show-error", "--fail", "--location", *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout

    file = str(tmp_path / "file")
    curl("--upload-file", file, f"{root}?op=CREATE")
    curl("--request", "POST", "--data-binary", f"@{file}", f"{root}?op=APPEND")
    assert curl(f"{root}?op=OPEN") == bytes(6 * MIB)
    assert f"Content-Length: {6 * MIB}".encode() in curl("--head", f"{root}?op=OPEN")
    (place,) = io.BytesIO(curl(f"{root}?op=OPEN&noredirect=true&length=5")).read().split(b'"')[3:4]
    assert curl(place.decode()) == bytes(5)
    assert curl(f"http://{gateway.address}/health") == b"active\n"
