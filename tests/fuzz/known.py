"""All targets by name: each has ``check(data)``, which raises if it misbehaves, and seeds."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from types import ModuleType

from tests.fuzz.targets import (
    admin,
    agent,
    control,
    edge,
    frames,
    handshake,
    http,
    lines,
    mesh,
    modules,
    registry,
    replica_log,
    rules,
    store,
    texts,
    tls,
    values,
    webhdfs,
    websocket,
)

TARGETS: dict[str, ModuleType] = {
    "admin": admin,
    "agent": agent,
    "control": control,
    "edge": edge,
    "frames": frames,
    "handshake": handshake,
    "http": http,
    "lines": lines,
    "mesh": mesh,
    "modules": modules,
    "registry": registry,
    "replica_log": replica_log,
    "rules": rules,
    "store": store,
    "texts": texts,
    "tls": tls,
    "values": values,
    "webhdfs": webhdfs,
    "websocket": websocket,
}

CORPUS = Path(__file__).parent / "corpus"

INPUT_SIZE_MAX = 4096
"""Bytes of an input: every limit that counts is far lower here, or tested elsewhere."""

CORPUS_SIZE_MAX = 8 * 1024
"""Bytes of the inputs that are kept for one target, the smallest first."""


def read_corpus(name: str) -> list[bytes]:
    """Give the kept inputs of a target: one a line, in hexadecimal, the smallest first."""
    path = CORPUS / f"{name}.hex"
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return [bytes.fromhex(line) for line in lines]


def write_corpus(name: str, inputs: Iterable[bytes]) -> None:
    """Keep as many inputs of a target as there is room for."""
    ordered = sorted(set(inputs), key=lambda data: (len(data), data))
    sizes = accumulate(map(len, ordered))
    kept = [data for data, size in zip(ordered, sizes, strict=True) if size <= CORPUS_SIZE_MAX]
    text = "".join(f"{data.hex()}\n" for data in kept)
    (CORPUS / f"{name}.hex").write_text(text, encoding="ascii")
