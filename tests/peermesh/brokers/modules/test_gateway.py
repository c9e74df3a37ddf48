"""The example of a gateway runs as its files say, at the command line, and follows its file."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from peermesh.brokers.modules import Layout
from peermesh.testing.time_limits import limit

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "examples" / "gateway"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in EXAMPLE.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    return tmp_path


@pytest.fixture
def gateway(folder: Path) -> Iterator[subprocess.Popen[str]]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PEERMESH_")}
    with subprocess.Popen(
        [sys.executable, "-m", "peermesh", "broker", "modules", "gateway.toml"],
        cwd=folder,
        env=clean | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group of its own, for the signals of a terminal
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []


def ended(gateway: subprocess.Popen[str], number: int) -> str:
    """End it in order, and give what it wrote to stderr."""
    gateway.send_signal(number)
    _, errors = gateway.communicate(timeout=limit())
    assert gateway.returncode == 128 + number
    return errors


def test_what_the_sensor_publishes_is_logged_whole_and_failures_show_their_line(
    kit, folder: Path, gateway: subprocess.Popen[str]
) -> None:
    """Also the first message, which the sensor publishes in ``attach``."""
    log = folder / "readings.log"
    kit.until(lambda: len(lines(log)) == 21)
    kit.until(lambda: len(lines(folder / "cloud.log")) == 18)
    errors = ended(gateway, signal.SIGTERM)
    first, *rest = lines(log)
    assert first == "sensor is on {}"
    numbers = [line.partition("number': '")[2].partition("'")[0] for line in rest]
    assert numbers == [str(number) for number in range(20)]
    assert "Table(" not in log.read_text()
    reported = [line.removeprefix("reported ") for line in lines(folder / "cloud.log")]
    contents = [line.partition(" {")[0] for line in lines(log)]
    assert reported == [each for place, each in enumerate(contents, 1) if place % 7]
    assert errors.count("module cloud: receive() raised") == 3
    source = (folder / "gateway_modules.py").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if "raise ConnectionError" in text)
    assert errors.count(f'gateway_modules.py", line {line}, in receive') == 3
    assert "ConnectionError: the cloud did not take message 7" in errors


def test_a_hang_up_of_the_whole_group_reloads_and_ends_no_process(
    kit, folder: Path, gateway: subprocess.Popen[str]
) -> None:
    log = folder / "readings.log"
    kit.until(lambda: lines(log))
    text = (folder / "gateway.toml").read_text()
    # Each start of the sensor says so: the second one is of the file, and not of a death.
    (folder / "gateway.toml").write_text(text.replace("count = 20", "count = 21"))
    os.killpg(gateway.pid, signal.SIGHUP)
    kit.until(lambda: lines(log).count("sensor is on {}") == 2)
    kit.until(lambda: any("number': '20'" in line for line in lines(log)))
    assert "died" not in ended(gateway, signal.SIGTERM)
    assert lines(log).count("sensor is on {}") == 2


def test_the_example_names_what_the_file_has() -> None:
    layout = Layout.parse((EXAMPLE / "gateway.toml").read_text("utf-8"))
    assert list(layout.modules) == ["sensor", "logger", "cloud"]
    source = (EXAMPLE / "gateway_modules.py").read_text("utf-8")
    for plan in layout.modules.values():
        assert f"class {plan.path.partition(':')[2]}" in source
