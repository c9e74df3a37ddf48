"""Hosts of asyncio that people have: a web server with a lifespan, and the kernel of a notebook."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

import pytest

from peermesh import blocking
from peermesh.testing.time_limits import limit

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


def visit(port: str, page: str) -> int:
    request = Request(f"http://127.0.0.1:{port}/visits/{page}", method="POST")
    with urlopen(request, timeout=limit()) as answer:
        return int(answer.read())


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_web_service_lives_in_the_mesh_and_leaves_it_in_order(loop: str) -> None:
    for module in ("fastapi", "uvicorn", loop):
        pytest.importorskip(module)
    with blocking.Endpoint() as node, node.attach_master("visits") as visits:
        heard, status = node.subscribe("/visits"), node.subscribe_status()
        command = [sys.executable, "-m", "uvicorn", "web_service:app", "--port=0", f"--loop={loop}"]
        environment = {**os.environ, "MESH": f"127.0.0.1:{node.listen()}", "PYTHONPATH": str(ROOT)}
        server = subprocess.Popen(
            command, cwd=EXAMPLES, env=environment, stderr=subprocess.PIPE, text=True
        )
        assert server.stderr is not None
        said = []
        try:
            for line in server.stderr:
                said.append(line)
                if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                    break
            else:
                pytest.fail("".join(said))
            assert [visit(found[1], "home") for _ in range(3)] == [1, 2, 3]
            assert visits.get("home") == 3
            assert heard.get(limit()).data == "home"
            server.send_signal(signal.SIGTERM)
            rest = server.stderr.read()
            assert server.wait(limit()) in (0, -signal.SIGTERM), rest
        finally:
            server.kill()
            server.wait()
            server.stderr.close()
        assert "Application shutdown complete" in rest
        assert "Traceback" not in rest
        while (event := status.get(limit())).status is not blocking.StatusCode.PEER_LOST:
            pass
        assert event.code is blocking.ErrorCode.SHUTTING_DOWN


def shown(cell: dict[str, Any]) -> list[str]:
    """Give what a cell of the notebook is said to show."""
    return ["".join(each["data"]["text/plain"]) for each in cell["outputs"]]


def test_a_notebook_shows_what_it_says() -> None:
    jupyter = pytest.importorskip("jupyter_client")
    pytest.importorskip("ipykernel")
    notebook = json.loads((EXAMPLES / "mesh.ipynb").read_text("utf-8"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # Not by TCP, whose ports are chosen before the kernel has them: another program may take one.
    kernel = jupyter.KernelManager(kernel_name="python3", transport="ipc")
    with TemporaryDirectory() as directory:
        kernel.ip = f"{directory}/kernel"
        _run_cells(notebook, kernel, environment)


def _run_cells(notebook: Any, kernel: Any, environment: dict[str, str]) -> None:
    kernel.start_kernel(env=environment)
    client = kernel.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=limit())
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            found: list[str] = []

            def hear(message: dict[str, Any], found: list[str] = found) -> None:
                content = message["content"]
                if message["msg_type"] == "execute_result":
                    found.append(content["data"]["text/plain"])
                elif message["msg_type"] in {"error", "stream"}:
                    found.append("".join(content.get("traceback", content.get("text", ""))))

            source = "".join(cell["source"])
            client.execute_interactive(source, output_hook=hear, timeout=limit())
            assert found == shown(cell)
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=False)
