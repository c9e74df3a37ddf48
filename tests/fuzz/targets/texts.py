"""Texts that people and other programs write: JSON values, lines of a history, and settings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

from endpoint.settings import Settings
from peermesh.cli.values import NoValue, format_value, parse_value
from peermesh.testing.history import HistoryError
from peermesh.testing.history_lines import from_line, to_line
from wire.encoding import encode
from wire.errors import EncodeError, SettingsError

KINDS = range(3)
VALUE, LINE, SETTINGS = KINDS
_FOLDER: list[Path] = []


def check(data: bytes) -> None:
    """Read a text of the kind that the first byte says."""
    kind, text = (data[0] % len(KINDS) if data else VALUE), data[1:].decode("utf-8", "replace")
    if kind == VALUE:
        _check_value(text)
    elif kind == LINE:
        _check_line(text)
    else:
        _check_settings(text)


def _check_value(text: str) -> None:
    try:
        value = parse_value(text)
        written = encode(value)
    except (NoValue, EncodeError):
        return
    assert encode(parse_value(format_value(value))) == written


def _check_line(text: str) -> None:
    try:
        event = from_line(text)
    except HistoryError:
        return
    if math.isfinite(event.at):
        assert repr(from_line(to_line(event))) == repr(event)


def _check_settings(text: str) -> None:
    if not _FOLDER:
        _FOLDER.append(Path(mkdtemp(prefix="fuzz-")))
    file = _FOLDER[0] / "settings.toml"
    file.write_text(text, encoding="utf-8")
    try:
        settings = Settings.load({}, {}, file)
    except SettingsError:
        return
    assert 1 <= settings.ttl <= 255
    assert settings.queue_size >= 1


def seeds() -> Iterator[bytes]:
    """Give a text for everything that the three know."""
    values = ['{"a": [1, 1.5, true, null, "text"]}', '{"@data-type": "count", "data": 7}',
              '{"@data-type": "set", "data": [1, {"@data-type": "port", "data": "80/tcp"}]}',
              '{"@data-type": "table", "data": [{"key": 1, "value": 2}]}',
              '{"@data-type": "timestamp", "data": "2026-01-31T23:59:59.5Z"}',
              '{"@data-type": "timespan", "data": "1500ms"}',
              '{"@data-type": "bytes", "data": "AAE="}',
              '{"@data-type": "subnet", "data": "10.0.0.0/8"}']  # fmt: skip
    for text in values:
        yield bytes((VALUE,)) + text.encode()
    lines = ['{"at": 0.5, "process": "p", "event": "begin", "operation": 1, "name": "put",'
             ' "arguments": ["k", 1], "node": "n"}',
             '{"at": 1, "process": "p", "event": "ok", "operation": 1, "result": [null]}',
             '{"at": 1, "process": "p", "event": "watched", "watch": "w", "delivery": 1,'
             ' "revision": 2, "key": "k", "after": [], "kind": "erase"}']  # fmt: skip
    for text in lines:
        yield bytes((LINE,)) + text.encode()
    yield bytes((SETTINGS,)) + b'ttl = 3\nforwarding = false\noverflow_policy = "drop_oldest"\n'
