"""A ZooKeeper server in a process of its own, where there are Java and PySpark's jars."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from peermesh.testing.time_limits import limit
from tests.ports import free_port

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""It starts with half of the work, and runs too briefly to miss the rest."""


def jars() -> Path:
    """Give the folder of jars that PySpark brings, ZooKeeper's among them."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "jars"


class ZooKeeper:
    """A server in a process of its own."""

    def __init__(self, folder: Path, jars: Path) -> None:
        self.port = free_port()
        self.hosts = f"127.0.0.1:{self.port}"
        self._folder = folder
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else shutil.which("java")
        assert java is not None
        options = [*QUICK, "-Xmx256m", "-Dzookeeper.admin.enableServer=false"]
        server = "org.apache.zookeeper.server.ZooKeeperServerMain"
        config = self._folder / "zoo.cfg"
        config.write_text(
            f"tickTime=500\ndataDir={self._folder}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nminSessionTimeout=1000\n"
        )
        self._process = subprocess.Popen(
            [java, *options, "-cp", f"{self._jars}/*", server, str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + limit(60)
        while not _answers(self.port):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.02)  # A look takes time from what is looked for.
                raise AssertionError("ZooKeeper ended at once")
            assert time.monotonic() < deadline, "ZooKeeper does not answer"

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Lose all data, between a kill and a start."""
        for path in self._folder.glob("version-2/*"):
            path.unlink()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.2) as connection:
            connection.sendall(b"srvr")
            return bool(connection.recv(1))
    except OSError:
        return False
