"""Links for plain tests: no trio in sight."""

from __future__ import annotations

import http.server
import socket
import threading
import urllib.request
from contextlib import closing

import pytest

from peermesh.testing.faults import Delay, Direction, Partition, Reset, Unsupported
from peermesh.testing.links.blocking import open_link
from peermesh.testing.time_limits import limit

HOST = "127.0.0.1"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


@pytest.fixture
def web():
    with http.server.ThreadingHTTPServer((HOST, 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def get(port):
    with urllib.request.urlopen(f"http://{HOST}:{port}/", timeout=limit()) as response:
        return response.read()


def test_a_web_server_is_read_through_a_link_with_faults(web):
    with open_link(HOST, web) as link:
        assert get(link.port) == b"hello"
        link.apply(Delay(0.01), direction=Direction.BACK)
        assert link.faults(Direction.BACK) == (Delay(0.01),)
        assert get(link.port) == b"hello"
        assert link.statistics().accepted == 2
        link.apply(Partition())
        with closing(socket.create_connection((HOST, link.port))) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            client.settimeout(0.05)
            with pytest.raises(TimeoutError):
                client.recv(1)
            client.settimeout(30)
            link.heal()
            assert client.recv(8) == b"HTTP/1.0"
        with closing(socket.create_connection((HOST, link.port))) as client:
            link.apply(Reset())
            with pytest.raises(ConnectionResetError):  # noqa: PT012 - bytes may come before
                while client.recv(4096):
                    pass
        with pytest.raises(Unsupported):
            link.apply(Reset(), direction=Direction.FORTH)


def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_behind(web):
    with pytest.raises(OSError, match=r"in use"):
        with open_link(HOST, web, port=web):
            pass
    assert "peermesh" not in {thread.name for thread in threading.enumerate()}


def test_a_link_may_lead_elsewhere(web):
    with open_link(HOST, 1) as link:
        link.target = (HOST, web)
        assert link.target == (HOST, web)
        assert get(link.port) == b"hello"
