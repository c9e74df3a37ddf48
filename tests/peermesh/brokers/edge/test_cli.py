"""``peermesh broker edge`` and its clients, as processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
import trio

from peermesh.brokers.edge import RemoteRegistry
from peermesh.testing.time_limits import limit
from tests.peermesh import commands

COMMAND = [sys.executable, "-m", "peermesh.cli", "broker"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return commands.run("broker", *arguments)


def test_a_broker_serves_clients_and_ends_in_order():
    start = [*COMMAND, "edge", "--registry", "127.0.0.1:0", "--json", "--every", "0.1"]
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = json.loads(process.stdout.readline())["address"]
            reading = [*COMMAND, "edge-sub", "-r", address, "weather", "--count=1", "--json"]
            with subprocess.Popen(
                reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as reader:
                assert reader.stderr.readline() == "subscribed to weather\n"
                sent = run("edge-pub", "-r", address, "weather", '"rain"')
                assert sent.returncode == 0, sent.stderr
                out, _ = reader.communicate(timeout=limit())
            assert json.loads(out) == {"v": 1, "topic": "weather", "value": "rain"}
            seen = set()
            while "channel" not in seen:
                seen.add(json.loads(process.stdout.readline())["event"])
            assert "active" in seen
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=limit())
            assert process.returncode == 128 + signal.SIGTERM
        finally:
            process.kill()


def test_a_subscriber_waits_for_its_broker_for_as_long_as_it_takes(free_port):
    at = f"127.0.0.1:{free_port}"
    reading = [*COMMAND, "edge-sub", "-r", at, "weather", "--count=1", "--json"]
    with subprocess.Popen(
        reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as reader:
        assert f"still trying registry {at}: connection refused" in reader.stderr.readline()
        start = [*COMMAND, "edge", "--registry", at, "--json"]
        with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as broker:
            try:
                for line in reader.stderr:
                    if line == "subscribed to weather\n":
                        break
                sent = run("edge-pub", "-r", at, "weather", '"rain"')
                assert sent.returncode == 0, sent.stderr
                out, _ = reader.communicate(timeout=limit())
                assert json.loads(out)["value"] == "rain"
            finally:
                broker.kill()
                reader.kill()


def test_the_channels_have_a_host_of_their_own(free_port):
    at = f"127.0.0.1:{free_port}"
    start = [*COMMAND, "edge", "--registry", at, "--host", "127.0.0.2", "--json"]
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert json.loads(process.stdout.readline())["address"] == at
            assert json.loads(process.stdout.readline())["event"] == "active"
            assert trio.run(topics_at, free_port).count("127.0.0.2:") == 2
        finally:
            process.kill()


async def topics_at(port: int) -> str:
    async with RemoteRegistry([("127.0.0.1", port)]) as registry:
        return await registry.read("/topics")


def test_clients_say_that_there_is_no_broker(free_port):
    for command in (("edge-pub", "a", "1"), ("edge-sub", "a")):
        found = run(*command, "-r", f"127.0.0.1:{free_port}", "--wait", "0.1")
        assert found.returncode == 4
        assert "no registry within 0.1 s" in found.stderr


@pytest.mark.parametrize("hosts", ["", "here:port"])
def test_a_place_of_zookeeper_is_read(hosts):
    found = run("edge-sub", "a", "--zookeeper", hosts)
    assert (found.returncode, found.stderr.count("\n")) == (1, 1)
    assert "HOST:PORT[,HOST:PORT]" in found.stderr


@pytest.mark.parametrize("ports", ["8000-7000", "7000", "²-³", f"7000-{'9' * 5_000}"])
def test_a_range_of_ports_is_read(ports):
    found = run("edge", "--ports", ports)
    assert found.returncode == 2
    assert "FIRST-LAST" in found.stderr


def test_a_broker_that_says_nothing_every_so_often_stays_too():
    start = [*COMMAND, "edge", "--registry", "127.0.0.1:0", "--json"]
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = json.loads(process.stdout.readline())["address"]
            assert json.loads(process.stdout.readline()) == {"v": 1, "event": "active"}
            sent = run("edge-pub", "-r", address, "weather", '"rain"', "--wait", "5")
            assert (sent.returncode, sent.stderr) == (0, "")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=limit())
            assert process.returncode == 128 + signal.SIGTERM
        finally:
            process.kill()
