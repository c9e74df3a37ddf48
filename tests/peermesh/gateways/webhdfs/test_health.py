"""What probes, balancers and Prometheus hear of a gateway."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from peermesh import blocking
from peermesh.gateways.webhdfs.health import health_reply
from peermesh.gateways.webhdfs.readiness import State
from peermesh.testing.webhdfs import WebHDFSClient

TOKEN = "a-token-of-some-length"
STRANGE = {"Host": "a-probe.example"}


def ask(client, path, method="GET", **headers):
    status, _, body = client.exchange(method, path, headers=headers)
    return status, body.decode()


@pytest.mark.parametrize(
    ("state", "word", "is_well", "is_ready"),
    [
        (State.ACTIVE, "active", True, True),
        (State.ELECTING, "electing", True, False),
        (State.STANDBY, "standby", True, False),
        (State.CLOSED, "closed", False, False),
    ],
)
def test_a_standby_is_well_and_not_ready(state, word, is_well, is_ready):
    for path, is_fine in (("/health", is_well), ("/ready", is_ready)):
        reply = health_reply(path, state)
        assert reply.body.decode() == f"{word}\n"
        assert reply.status == (200 if is_fine else 503)


def test_a_gateway_tells_its_state_to_anybody_by_any_name(store):
    with (
        blocking.serve_webhdfs(store, token=TOKEN) as gateway,
        WebHDFSClient(gateway.host, gateway.port) as probe,
    ):
        for path in ("/health", "/ready", "/ready?verbose"):
            assert ask(probe, path, **STRANGE) == (200, "active\n")
            assert ask(probe, path, "HEAD") == (200, "")
        assert ask(probe, "/health", "POST")[0] == HTTPStatus.UNAUTHORIZED
        assert ask(probe, "/healthy")[0] == HTTPStatus.UNAUTHORIZED
        store.close()
        assert ask(probe, "/health") == (503, "closed\n")
        assert ask(probe, "/ready") == (503, "closed\n")


def test_a_gateway_without_a_leader_is_a_standby():
    with (
        blocking.Endpoint() as endpoint,
        endpoint.attach_clone("files") as clone,
        blocking.serve_webhdfs(clone) as gateway,
        WebHDFSClient(gateway.host, gateway.port) as probe,
    ):
        assert ask(probe, "/health") == (200, "standby\n")
        assert ask(probe, "/ready") == (503, "standby\n")
        assert 'peermesh_gateway_state{state="standby"} 1' in ask(probe, "/metrics")[1]


def test_figures_are_for_those_who_may_ask_for_files(store):
    with (
        blocking.serve_webhdfs(store, token=TOKEN) as gateway,
        WebHDFSClient(gateway.host, gateway.port) as stranger,
        WebHDFSClient(gateway.host, gateway.port, token=TOKEN) as known,
    ):
        known.create("/secret-name", bytes(1_000), overwrite=False)
        assert known.exchange("GET", "/elsewhere")[0] == HTTPStatus.NOT_FOUND
        status, text = ask(stranger, "/metrics")
        assert status == HTTPStatus.OK
        assert text.splitlines()[2:] == [
            'peermesh_gateway_state{state="active"} 1',
            'peermesh_gateway_state{state="electing"} 0',
            'peermesh_gateway_state{state="standby"} 0',
            'peermesh_gateway_state{state="closed"} 0',
        ]
        assert ask(known, "/metrics", **STRANGE)[1] == text
        text = ask(known, "/metrics")[1]
        figures = dict(
            line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")
        )
        assert figures['peermesh_gateway_requests_total{operation="Create"}'] == "2"
        assert figures['peermesh_gateway_refusals_total{reason="FileNotFoundException"}'] == "1"
        assert int(figures["peermesh_store_bytes"]) == store.statistics().bytes > 1_000
        assert figures["peermesh_gateway_connections"] == "2"
        assert "secret-name" not in text
