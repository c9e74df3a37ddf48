"""Spark on this machine alone: quick to start, quiet, and with all its files in one directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import pyspark
from pyspark import SparkConf, SparkContext

from handshake.private_files import make_directory, open_private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS: Final = 2
"""Threads: what the smallest machine has."""

MEMORY: Final = "512m"
"""For the JVM's heap, of which pieces of a few megabytes fill little."""

JVM_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=1",  # starts in half the time, and runs too briefly to miss the rest
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",  # a seventh of the start, for what pip has checked
    "-XX:-UsePerfData",  # writes a file outside of our directory, which stays when it is killed
    "-Xlog:disable",
    "-Xlog:all=warning:stderr",
)

FOREIGN: Final = (
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_LOCAL_DIRS",
    "SPARK_REMOTE",
)
"""Variables that would point us to another Spark, or send our work there."""

LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c: %m%n%ex
"""


class LocalSpark:
    """A Spark context with ``THREADS`` threads: ``with LocalSpark("name", directory) as spark``."""

    def __init__(
        self, name: str, directory: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        """Start it; its temporary files go to ``directory``. ``settings`` come on top of ours.

        Until it is stopped the environment of this process is another, which is how Spark's JVM
        and its Python workers are told: one a process.
        """
        logging = directory / "log4j2.properties"
        with open_private(logging, "w") as file:
            file.write(LOGGING)
        options = (
            *JVM_OPTIONS,
            f"-Djava.io.tmpdir={directory}",
            f"-Dlog4j2.configurationFile={logging.as_uri()}",
        )
        self._before = _swap_environment(
            {
                **dict.fromkeys(FOREIGN),
                **({"SPARK_HOME": str(link_home(directory / "home"))} if _is_from_pip() else {}),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_SUBMIT_OPTS": " ".join(options),
                "TMPDIR": str(directory),
            }
        )
        configuration = _configuration(name, directory).setAll(list((settings or {}).items()))
        try:
            self._context = SparkContext(conf=configuration)
        except BaseException:
            _swap_environment(self._before)
            raise

    def session(self) -> SparkSession:
        """Give a session of it, for tables and streams."""
        from pyspark.sql import SparkSession

        return SparkSession(self._context)

    def stop(self) -> None:
        """End it, and its processes."""
        try:
            self._context.stop()
        finally:
            _swap_environment(self._before)

    def __enter__(self) -> Self:
        """Use it within the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()


def _is_from_pip() -> bool:
    """Whether PySpark has its Spark beside it; that of a distribution finds it by itself."""
    return (Path(pyspark.__file__).parent / "jars").is_dir()


def link_home(directory: Path) -> Path:
    """Make a home for Spark, of links to the real one but without its Python.

    That is the same Python as ours in a zip, for which no bytecode is kept: each process that Spark
    starts would spend most of a second compiling it. And workers of a local cluster write into
    their home. It may be there already, from somebody who was killed. Raises ``FileNotFoundError``
    where PySpark is not installed with pip.
    """
    if not _is_from_pip():
        raise FileNotFoundError(
            f"{Path(pyspark.__file__).parent} has no jars: a home of links is for PySpark as pip "
            "installs it; let SPARK_HOME name the distribution that this one belongs to"
        )
    make_directory(directory)
    for path in Path(pyspark.__file__).parent.iterdir():
        link = directory / path.name
        if path.name != "python" and not link.is_symlink():
            link.symlink_to(path)
    return directory


def _swap_environment(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """Set variables, or remove those that are ``None``; give what they were."""
    before = {name: os.environ.pop(name, None) for name in variables}
    os.environ.update({name: value for name, value in variables.items() if value is not None})
    return before


def _configuration(name: str, directory: Path) -> SparkConf:
    return SparkConf().setAll(
        [
            ("spark.app.name", name),
            ("spark.master", f"local[{THREADS}]"),
            ("spark.driver.memory", MEMORY),
            ("spark.driver.host", "127.0.0.1"),
            ("spark.driver.bindAddress", "127.0.0.1"),
            ("spark.local.dir", str(directory)),
            ("spark.ui.enabled", "false"),
            ("spark.ui.showConsoleProgress", "false"),
        ]
    )
