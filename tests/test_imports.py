"""What an import costs: ``import peermesh`` loads what a mesh needs and nothing else.

Each case imports in a fresh interpreter and looks at what came along. The clock is not asked: a
slow machine is not a slow import, but every heavy library on the list below is.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

EXTRAS = {
    *("pyspark", "py4j", "click", "rich", "zmq", "zenoh", "kazoo"),
    *("h11", "trio_websocket", "wsproto"),
}
TEST_TOOLS = {"pytest", "_pytest", "pytest_trio", "hypothesis"}
LOADED_WHEN_USED = {"cryptography", "numpy", "pandas", "pyarrow"}
"""``cryptography`` is a dependency, but takes as long as all the rest and only TLS needs it."""

REPORT = "import sys, json; {imports}; json.dump(sorted(sys.modules), sys.stdout)"


def loaded_modules(*imports: str) -> list[str]:
    """Import in an interpreter of its own, and give the names of all that was loaded."""
    code = REPORT.format(imports="; ".join(f"import {name}" for name in imports))
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return list(json.loads(found.stdout))


def top_level_modules(*imports: str) -> set[str]:
    """Give the top-level names of what was loaded."""
    return {name.partition(".")[0] for name in loaded_modules(*imports)}


def exists(module: str) -> bool:
    """Tell whether there is code to import: a folder without any is a module to Python, too."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.origin is not None


@pytest.mark.parametrize(
    "module",
    [
        "peermesh",
        "peermesh.aio",
        "peermesh.blocking",
        "peermesh.brokers",
        "handshake.credentials",
        "stores.disk",
    ],
)
def test_an_import_loads_no_extra_no_test_tool_and_no_cryptography(module):
    if not exists(module):
        pytest.skip(f"there is no {module}")
    heavy = EXTRAS | TEST_TOOLS | LOADED_WHEN_USED
    assert sorted(top_level_modules(module) & heavy) == []


@pytest.mark.parametrize("module", ["wire", "channels", "handshake"])
def test_the_lower_packages_load_no_event_loop(module):
    assert sorted(top_level_modules(module) & {"trio", "asyncio", "sqlite3", "ssl"}) == []


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("endpoint.endpoint", ("stores.table.", "stores.log.", "stores.replica.", "stores.disk.")),
        ("endpoint.replicas.stores.attachments", ("stores.replica.logs.", "stores.log.messages")),
        ("endpoint.replicas.logs.attachments", ("stores.replica.tables.", "stores.table.machine")),
        ("peermesh.cli.messages", ("stores.replica.", "stores.table.", "stores.log.")),
        ("peermesh.cli.node", ("stores.replica.", "stores.table.", "stores.log.")),
        ("peermesh.cli.application", ("importlib.metadata",)),
    ],
)
def test_what_is_not_needed_is_not_loaded(module, unwanted):
    """Each process that starts would pay for it: a tenth of a second, or several."""
    assert [name for name in loaded_modules(module) if name.startswith(unwanted)] == []


def test_the_command_line_works_without_spark_http_and_test_tools():
    """What needs them says so when it is used."""
    if not exists("peermesh.cli"):
        pytest.skip("there is no peermesh.cli")
    unwanted = {"pyspark", "h11"} | TEST_TOOLS
    assert sorted(top_level_modules("peermesh.cli.application") & unwanted) == []


def test_a_heavy_import_would_be_seen():
    assert "cryptography" in top_level_modules("handshake.credentials", "cryptography.x509")


@pytest.mark.parametrize(("asks", "told"), [("", ""), ("logging.basicConfig();", "told")])
def test_the_library_logs_nothing_unless_its_user_asks_for_it(asks: str, told: str) -> None:
    code = f"import logging, endpoint; {asks} logging.getLogger('peermesh.store').error('told')"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stderr.strip().rpartition(":")[2] == told
