"""Hadoop's own client, from the jars that come with PySpark: one JVM, and the shell in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"


class Hadoop:
    """A JVM with Hadoop's client in it."""

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self.jvm = gateway.jvm
        self.fs = gateway.jvm.org.apache.hadoop.fs

    def configuration(self, settings: Mapping[str, str]) -> Any:
        """Give what a job has that was given these settings of Spark."""
        found = self.jvm.org.apache.hadoop.conf.Configuration()
        for key, value in settings.items():
            if key.startswith("spark.hadoop."):
                found.set(key.removeprefix("spark.hadoop."), value)
        # A client of a test gives up soon: else it asks for half an hour.
        for kind in ("failover", "retry"):
            found.set(f"dfs.http.client.{kind}.max.attempts", "4")
        found.set("dfs.http.client.failover.sleep.base.millis", "20")
        found.set("dfs.http.client.failover.sleep.max.millis", "20")
        return found

    def shell(self, settings: Mapping[str, str], *arguments: str) -> tuple[int, str]:
        """Run ``hadoop fs``; give its code, and what it wrote to both of its outputs."""
        words = self.gateway.new_array(self.jvm.java.lang.String, len(arguments))
        for number, argument in enumerate(arguments):
            words[number] = argument
        system = self.jvm.java.lang.System
        written = self.jvm.java.io.ByteArrayOutputStream()
        stream = self.jvm.java.io.PrintStream(written, True, "UTF-8")
        before = system.out, system.err
        system.setOut(stream)
        system.setErr(stream)
        try:
            code = self.fs.FsShell(self.configuration(settings)).run(words)
        finally:
            system.setOut(before[0])
            system.setErr(before[1])
        return code, written.toString("UTF-8")


@contextmanager
def hadoop(folder: Path, hosts: Mapping[str, list[str]]) -> Iterator[Hadoop]:
    """Run a JVM that knows these hosts, with all their addresses, and no others."""
    from pyspark.java_gateway import launch_gateway

    file = folder / "hosts"
    lines = [f"{address} {host}\n" for host, addresses in hosts.items() for address in addresses]
    file.write_text("".join(lines))
    options = f"{_JVM_OPTIONS} -Djdk.net.hosts.file={file} -Djava.io.tmpdir={folder}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", options)
        patch.setenv("LC_ALL", "C.UTF-8")
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"):
            patch.delenv(name, raising=False)
        gateway = launch_gateway()
    try:
        yield Hadoop(gateway)
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        if gateway.proc.stdout is not None:
            gateway.proc.stdout.close()
