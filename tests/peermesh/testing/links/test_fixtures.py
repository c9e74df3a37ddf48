"""The plugin's fixtures for links."""

from __future__ import annotations

import socket

import trio

from peermesh.testing.faults import Delay


async def test_links_of_a_trio_test_stand_until_it_ends(link_to):
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        link = await link_to("127.0.0.1", listener.socket.getsockname()[1], seed=3)
        await link.apply(Delay(0.001))
        async with await trio.open_tcp_stream(link.host, link.port) as near:
            async with await listener.accept() as far:
                await near.send_all(b"x")
                assert await far.receive_some(1) == b"x"


def test_links_of_a_plain_test_do_too(blocking_link_to):
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = blocking_link_to("127.0.0.1", server.getsockname()[1])
        with socket.create_connection((link.host, link.port)) as near:
            far, _ = server.accept()
            with far:
                near.sendall(b"x")
                assert far.recv(1) == b"x"
