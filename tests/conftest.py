"""What all tests share: Hypothesis profiles, the net, and the rule for missing programs."""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import time_net
from tests.chromium import find_chromium

JAVA_VERSION_MIN = 17
SHARED_SESSIONS = (("sink", "source"), ("fast_json", "parsing", "round_trips"))
"""Tests of Spark that have a session in common: each session takes half a minute of a core."""

SESSION_OF = {
    f"tests/peermesh/spark/test_{name}.py": f"Spark with {names[0]}"
    for names in SHARED_SESSIONS
    for name in names
}
LONG_FILES = {
    "tests/stores/replica/test_faults_at_every_step.py",
    "tests/stores/disk/test_damage.py",
    "tests/stores/disk/test_power_cut.py",
}
IS_CI = os.environ.get("CI") == "true"

# No deadline and no check for slowness: a slow machine is not a failing property.
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("developer", parent=_ANY_SPEED, max_examples=50)
# No more in CI, which has twenty minutes; the fuzzers and `make test-long` take theirs.
settings.register_profile("ci", parent=_ANY_SPEED, max_examples=50, print_blob=True)
settings.load_profile("ci" if IS_CI else "developer")


def pytest_configure(config: pytest.Config) -> None:
    """End a test that hangs, and no other; and let programs that tests start hear Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So a shell starts what runs in its background, and every program inherits it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(time_net, "time_net")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep the format in which pytest captures what is logged, for good.

    pytest has its handlers added to all loggers that do not propagate. Such a one is PySpark's,
    once there was an error in a query, and it gives each handler that is added a format of its own,
    which leaves out what the errors in a group are.
    """
    plugin = session.config.pluginmanager.get_plugin("logging-plugin")
    if plugin is not None:
        for handler in (plugin.caplog_handler, plugin.report_handler):
            handler.setFormatter = lambda _: None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """Escape lone surrogates, which UTF-8 has none of: one in a failure ended the whole run."""
    return _encodable((yield))


def _encodable(data: object) -> object:
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(data, dict):
        return {key: _encodable(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(map(_encodable, data))
    return data


@cache
def java_problem() -> str | None:
    """Say what keeps Spark from running here; ``None`` if nothing does."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = f"install Java {JAVA_VERSION_MIN} or newer, or point JAVA_HOME at one"
    if java is None:
        return f"there is no java on the path: {advice}"
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return f"{java} does not run: {advice}"
    found = re.search(r'version "(\d+)', text)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        return f"{java} is too old: {advice}"
    return None


def problem_of(item: pytest.Item) -> str | None:
    """Say what a test needs that is not here."""
    if item.get_closest_marker("browser") is not None and find_chromium() is None:
        return "there is no chromium on the path: apt-get install chromium"
    is_zookeeper = item.get_closest_marker("zookeeper") is not None
    if is_zookeeper and importlib.util.find_spec("kazoo") is None:
        return "there is no kazoo: pip install 'peermesh[zookeeper]'"
    if is_zookeeper and importlib.util.find_spec("pyspark") is None:
        return "there is no pyspark, whose jars hold a ZooKeeper: pip install 'peermesh[spark]'"
    if is_zookeeper or item.get_closest_marker("spark") is not None:
        return java_problem()
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give a file to one worker, and all files that share a session of Spark as well."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneSession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return SESSION_OF.get(file, file)

    return OneSession(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort Spark and long files first: a core that gets one at the end runs alone."""
    items.sort(
        key=lambda item: (
            item.get_closest_marker("spark") is None and item.location[0] not in LONG_FILES
        )
    )


def pytest_collection_finish() -> None:
    """Take what was imported and collected for permanent.

    A test that looks for what is left behind would go through half a million objects for it, which
    takes a third of a second.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a program that is not here; fail in CI, where nothing may go unseen."""
    problem = problem_of(item)
    if problem and IS_CI:
        pytest.fail(problem, pytrace=False)
    if problem:
        pytest.skip(problem)
