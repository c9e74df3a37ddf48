"""What probes, balancers and Prometheus are told of a gateway, without a token: its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from peermesh.gateways.http import Reply
from peermesh.gateways.webhdfs.readiness import State

HEALTH_PATH: Final = "/health"
READY_PATH: Final = "/ready"
METRICS_PATH: Final = "/metrics"

PATHS: Final = (HEALTH_PATH, READY_PATH, METRICS_PATH)

_PLAIN: Final = (("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"))
_METRICS: Final = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)
"""Prometheus's text format."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a gateway has done, and its store has."""

    requests: Mapping[str, int]
    refusals: Mapping[str, int]
    connections: int
    upload_bytes: int
    store_bytes: int
    store_entries: int
    store_bytes_max: int | None


def health_reply(path: str, state: State) -> Reply:
    """Answer ``/health`` or ``/ready``."""
    is_fine = state is State.ACTIVE if path == READY_PATH else state is not State.CLOSED
    return Reply(200 if is_fine else 503, f"{_word(state)}\n".encode(), _PLAIN)


def metrics_reply(state: State, figures: Figures | None) -> Reply:
    """Answer ``/metrics``; without ``figures`` with nothing but the state."""
    lines = [*_state(state), *(() if figures is None else _figures(figures))]
    return Reply(200, "".join(f"{line}\n" for line in lines).encode(), _METRICS)


def _word(state: State) -> str:
    return state.name.lower()


def _state(state: State) -> Iterator[str]:
    name = "peermesh_gateway_state"
    yield from _head(name, "gauge", "1 for the state that the gateway is in.")
    for each in State:
        yield f'{name}{{state="{_word(each)}"}} {int(each is state)}'


def _figures(figures: Figures) -> Iterator[str]:
    for name, label, counts, text in (
        ("requests", "operation", figures.requests, "Requests that were let in."),
        ("refusals", "reason", figures.refusals, "Requests that were refused."),
    ):
        yield from _head(f"peermesh_gateway_{name}_total", "counter", text)
        for key, count in sorted(counts.items()):
            yield f'peermesh_gateway_{name}_total{{{label}="{key}"}} {count}'
    for name, size, text in (
        ("gateway_connections", figures.connections, "Connections that stand."),
        ("gateway_upload_bytes", figures.upload_bytes, "Bytes of uploads that have not ended."),
        ("store_bytes", figures.store_bytes, "Bytes of all keys and values of the store."),
        ("store_entries", figures.store_entries, "Keys of the store."),
        ("store_max_bytes", figures.store_bytes_max, "Bytes that the store may have."),
    ):
        if size is not None:
            yield from _head(f"peermesh_{name}", "gauge", text)
            yield f"peermesh_{name} {size}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
