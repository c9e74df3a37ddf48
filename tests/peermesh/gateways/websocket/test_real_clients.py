"""Clients of Broker's WebSocket from the package index: zeek-client, zeekpy, and websockets."""

from __future__ import annotations

import asyncio
import datetime
import json
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest
import trio

from peermesh import Count, Endpoint, Missed
from peermesh.testing.time_limits import limit
from wire.values import Value

websockets = pytest.importorskip("websockets")
zeekpy = pytest.importorskip("zeekpy")

CONTROLLER = "zeek/management/controller"
REQUEST = "Management::Controller::API::get_instances_request"
RESPONSE = "Management::Controller::API::get_instances_response"


def event(name: str, *arguments: Value) -> Value:
    """Give what an event of Zeek is in Broker."""
    return (Count(1), Count(1), (name, arguments))


async def answer(
    endpoint: Endpoint, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Play a controller of Zeek, and a partner of ping-pong."""
    with endpoint.subscribe(CONTROLLER, "/pings") as subscriber:
        task_status.started()
        async for _, value in subscriber:
            assert isinstance(value, tuple)
            assert not isinstance(value, Missed)
            name, arguments = value[2]
            if name == REQUEST:
                instances = (("agent-1", ip_address("10.0.0.1"), None),)
                result = (arguments[0], True, "controller", instances, None, None)
                await endpoint.publish(CONTROLLER, event(RESPONSE, arguments[0], result))
            elif name == "ping":
                await endpoint.publish("/pongs", event("pong", *arguments))


async def test_the_client_of_zeek_gets_an_answer_from_two_hops_away(line, tmp_path):
    command = Path(sys.executable).with_name("zeek-client")
    arguments = (str(command), "--controller", line.gateway.address, "get-instances")
    async with trio.open_nursery() as nursery:
        await nursery.start(answer, line.far)
        assert await line.near.await_subscribed(CONTROLLER)
        with trio.fail_after(limit(60)):
            done = await trio.run_process(
                arguments, capture_stdout=True, stderr=subprocess.STDOUT, cwd=tmp_path, check=False
            )
        nursery.cancel_scope.cancel()
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout) == {"agent-1": {"host": "10.0.0.1"}}


# It uses websockets in a way that newer versions warn of.
@pytest.mark.filterwarnings(r"ignore:connect\(\) must be used:DeprecationWarning")
async def test_zeekpy_plays_ping_pong_with_two_hops_away(line):
    pongs = []

    def play() -> None:
        zeek = zeekpy.Zeek(line.gateway.url, topics=["/pongs"])

        @zeek.on("pong")
        def pong(
            number: zeekpy.count,
            text: str,
            address: str,
            span: datetime.timedelta,
            items: list[int],
        ) -> None:
            pongs.append((int(number), text, address, span, items))
            if len(pongs) == 3:
                zeek.stop()

        with zeek:
            for number in range(3):
                span = datetime.timedelta(milliseconds=1500)
                arguments = [zeekpy.count(number), "x" * number, "1.2.3.4", span, [1, 2]]
                zeek.publish("/pings", "ping", arguments)
            zeek.consume(limit(30))

    async with trio.open_nursery() as nursery:
        await nursery.start(answer, line.far)
        assert await line.near.await_subscribed("/pings")
        await trio.to_thread.run_sync(play)
        nursery.cancel_scope.cancel()
    span = datetime.timedelta(milliseconds=1500)
    assert pongs == [(n, "x" * n, "1.2.3.4", span, [1, 2]) for n in range(3)]


ONE_OF_EACH = [
    {"@data-type": "none", "data": {}},
    {"@data-type": "boolean", "data": True},
    {"@data-type": "count", "data": 2**64 - 1},
    {"@data-type": "integer", "data": -(2**63)},
    {"@data-type": "real", "data": 0.1},
    {"@data-type": "string", "data": 'höre "\\'},
    {"@data-type": "address", "data": "2001:db8::"},
    {"@data-type": "subnet", "data": "255.255.255.0/24"},
    {"@data-type": "port", "data": "8080/tcp"},
    {"@data-type": "timestamp", "data": "2022-04-10T07:00:00.000"},
    {"@data-type": "timespan", "data": "1500ms"},
    {"@data-type": "enum-value", "data": "foo"},
    {"@data-type": "set", "data": [{"@data-type": "count", "data": n} for n in range(3)]},
    {
        "@data-type": "table",
        "data": [
            {
                "key": {"@data-type": "string", "data": name},
                "value": {"@data-type": "string", "data": "x"},
            }
            for name in ("first-name", "last-name")
        ],
    },
    {"@data-type": "vector", "data": []},
]


async def test_the_library_websockets_sends_and_hears_a_value_of_each_type(line):
    sent = {
        "type": "data-message",
        "topic": "/test",
        "@data-type": "vector",
        "data": ONE_OF_EACH,
    }

    async def talk() -> object:
        async with (
            websockets.connect(line.gateway.url) as hears,
            websockets.connect(line.gateway.url) as says,
        ):
            await hears.send('["/test"]')
            acknowledged = json.loads(await hears.recv())
            assert acknowledged["endpoint"] == str(line.near.node_id())
            await says.send("[]")
            await says.recv()
            await says.send(json.dumps(sent))
            return json.loads(await asyncio.wait_for(hears.recv(), limit(20)))

    assert await trio.to_thread.run_sync(asyncio.run, talk()) == sent
