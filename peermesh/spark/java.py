"""Looks whether Spark can run here, without starting it: pyspark, and a Java that it likes."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

JAVA_VERSION_MIN: Final = 17
"""What Spark 4 asks for."""

JAVA_SECONDS_MAX: Final = 30.0
"""How long ``java -version`` may take: a busy machine is slow, a broken Java never ends."""

_ADVICE: Final = (
    f"install Java {JAVA_VERSION_MIN} or newer (apt-get install openjdk-17-jre-headless), or set"
    " JAVA_HOME to where there is one"
)


def spark_problem(environment: Mapping[str, str] | None = None) -> str | None:
    """Say in a sentence what is missing for Spark to run here; ``None`` if nothing is."""
    if any(importlib.util.find_spec(name) is None for name in ("pyspark", "pyarrow")):
        return "Spark is not installed: pip install 'peermesh[spark]'"
    return java_problem(os.environ if environment is None else environment)


def java_problem(environment: Mapping[str, str]) -> str | None:
    """Say what is wrong with Java; it is looked for where Spark looks for it."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=_path(environment))
    if java is None:
        return f"Spark needs Java, and there is none on the PATH: {_ADVICE}"
    try:
        found = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=JAVA_SECONDS_MAX,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return f"Spark needs Java, and {java} does not run: {_ADVICE}"
    return version_problem(java, found.stderr + found.stdout)


def version_problem(java: str, text: str) -> str | None:
    """Say whether the answer of ``java -version`` names a version that is too old."""
    version = re.search(r'version "(?:1\.)?(\d+)', text)  # Java 8 calls itself 1.8
    if version is None:
        return f"Spark needs Java, and {java} does not tell its version: {_ADVICE}"
    if int(version[1]) < JAVA_VERSION_MIN:
        return f"Spark needs a newer Java than {java}, which is Java {version[1]}: {_ADVICE}"
    return None


def _path(environment: Mapping[str, str]) -> str:
    return environment.get("PATH", os.defpath)
