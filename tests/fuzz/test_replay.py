"""The corpus of the fuzzers, replayed without them; and a short, blind walk around it."""

from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.known import CORPUS, CORPUS_SIZE_MAX, TARGETS, read_corpus

ROOT = Path(__file__).parent.parent.parent
MUTATIONS = 300
MEMORY_MAX = 16 * 1024 * 1024
"""Bytes that one input may make a target take at once: 4096 for each of its own, at the most."""

by_target = pytest.mark.parametrize("name", TARGETS)


def inputs(name: str) -> list[bytes]:
    return [*TARGETS[name].seeds(), *read_corpus(name)]


def test_every_target_has_a_small_corpus_and_nobody_else_has():
    assert {path.name for path in CORPUS.iterdir()} == {f"{name}.hex" for name in TARGETS}
    for name in TARGETS:
        sizes = list(map(len, read_corpus(name)))
        assert sizes == sorted(sizes)
        assert 0 < sum(sizes) <= CORPUS_SIZE_MAX


def test_the_page_has_every_target_and_no_other():
    text = (ROOT / "docs" / "testing" / "fuzzing.md").read_text("utf-8")
    tables = text.partition("## With coverage")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", tables, re.M)) == TARGETS.keys()


@by_target
def test_the_corpus_is_taken_well(name):
    for data in inputs(name):
        TARGETS[name].check(data)


@by_target
def test_what_is_near_the_corpus_is_taken_well(name):
    random = Random(name)
    known = inputs(name)
    for _ in range(MUTATIONS):
        data = bytearray(random.choice(known))
        for _ in range(random.randint(1, 4)):
            place = random.randint(0, len(data))
            match random.randrange(4):
                case 0:
                    data[place : place + 1] = bytes((random.randrange(256),))
                case 1:
                    del data[place : place + random.randint(1, 8)]
                case 2:
                    data[place:place] = random.randbytes(random.randint(1, 4))
                case _:
                    other = random.choice(known)
                    data[place:] = other[random.randint(0, len(other)) :]
        try:
            TARGETS[name].check(bytes(data))
        except Exception as error:
            error.add_note(f"the input was bytes.fromhex({data.hex()!r})")
            raise


@by_target
def test_no_input_takes_much_memory(name):
    tracemalloc.start()
    try:
        for data in inputs(name):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            TARGETS[name].check(data)
            assert tracemalloc.get_traced_memory()[1] - before < MEMORY_MAX, data
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "data"),
    [("values", b"\x01"), ("frames", b""), ("control", b""), ("handshake", b""), ("store", b""),
     ("replica_log", b""),
     ("texts", b"\x001"), ("lines", b"\x00\x00"), ("agent", b""), ("edge", b"\x00\x00"),
     ("http", b"\x00\x00"), ("mesh", b"\x00\x00"), ("tls", b""), ("webhdfs", b""),
     ("admin", b""), ("modules", b""), ("registry", b""), ("rules", b""),
     ("websocket", b"\x03\x00")],
)  # fmt: skip
def test_a_decoder_that_misbehaves_is_noticed(name, data, monkeypatch):
    """Break what each target calls first, and see the target fail."""
    target = TARGETS[name]

    def misbehave(*_arguments, **_named):
        raise ZeroDivisionError

    broken = {"values": "decode", "frames": "FrameDecoder", "control": "decode_control",
              "handshake": "FrameDecoder", "store": "TableCore", "replica_log": "LogCore",
              "texts": "parse_value",
              "lines": "PublisherSession", "agent": "Inbox", "edge": "Guest",
              "http": "Access",
              "mesh": "EndpointLoop", "tls": "_network",
              "webhdfs": "parse", "admin": "decode_request",
              "modules": "Pipe", "registry": "Line", "rules": "_check_roles",
              "websocket": "Session"}  # fmt: skip
    assert broken.keys() == TARGETS.keys()
    target.check(data)
    monkeypatch.setattr(target, broken[name], misbehave)
    with pytest.raises(ZeroDivisionError):
        target.check(data)


def test_the_command_explains_itself():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "--seconds" in done.stdout
