"""Text that others chose reaches terminals and logs as text."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given, strategies as st

from tests.hostile_text import EVERYTHING, HOSTILE, chunks, found_in
from wire.escaping import escape, is_plain, is_whole
from wire.logs import logger_of
from wire.scalars import shorten


def test_no_code_point_is_obeyed_or_hidden():
    for text in chunks():
        shown = escape(text)
        assert not found_in(shown, kept="")
        assert is_plain(shown)
        assert escape(shown) == shown
        assert not found_in(shorten(text, len(text) * 12), kept="")


def test_what_is_assigned_and_shows_stays_as_it_is():
    shown = [each for each in EVERYTHING if each not in HOSTILE]
    escaped = {each for each in shown if escape(each) != each}
    assert all(not each.isprintable() or each == "\U0001d159" for each in escaped)


@pytest.mark.parametrize(
    "text",
    [
        *("Grüße aus Wien, l'été à 10\u202f€", "Καλημέρα κόσμε", "Привет, мир", "שלום עולם"),
        *("مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "こんにちは\u3000世界", "你好世界"),
        *("안녕 세상", "👍🏽 🇦🇹 ½ → ∞ ￥", r"C:\new \u202e", '"quoted"'),
    ],
)
def test_text_of_all_languages_stays_readable(text):
    assert escape(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\u001b[2J"),
        ("\x9b31mRED", r"\u009b31mRED"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\nb\u2028c\x85d", r"a\nb\u2028c\u0085d"),
        ("👩\u200d💻", r"👩\u200d💻"),
        ("a\u3164\ufe0f\U000e0041", r"a\u3164\ufe0f\udb40\udc41"),
        ("\ud800", r"\ud800"),
    ],
)
def test_escapes_are_those_of_json(text, shown):
    assert escape(text) == shown
    assert json.loads(f'"{shown}"') == text


def test_lines_of_our_own_are_kept_where_they_are_asked_for():
    assert escape("a\nb\tc\r\x85", kept="\n") == "a\nb\\tc\\r\\u0085"


@given(st.text())
def test_escaped_json_says_the_same(text):
    assert json.loads(escape(json.dumps([text], ensure_ascii=False))) == [text]


# Loggers.


class Lines(logging.Handler):
    """Keeps what a plain formatter makes of records."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.records, self.shown = [], []

    def emit(self, record):
        self.records.append(record)
        self.shown.append(self.format(record))


@pytest.fixture
def log():
    logger, lines = logger_of("peermesh.test_escaping"), Lines()
    logger.propagate, logger.handlers = False, [lines]
    logger.setLevel(logging.DEBUG)
    return logger, lines


class Named:
    """What writes others' words when it is written."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


@pytest.mark.parametrize("form", ["%s and %s", "%r and %r"])
def test_arguments_of_log_lines_are_escaped(log, form):
    logger, lines = log
    for text in chunks():
        logger.warning(form, text, Named(text))
    logger.warning("%s", {HOSTILE: HOSTILE})  # which logging takes for named arguments
    logger.warning(HOSTILE)
    assert not set().union(*(found_in(each, kept="") for each in lines.shown))


def test_tracebacks_in_log_lines_are_escaped(log):
    logger, lines = log
    try:
        raise ExceptionGroup(HOSTILE, [ValueError(HOSTILE), KeyError(HOSTILE)])
    except ExceptionGroup:
        logger.exception("it failed")
    (shown,) = lines.shown
    assert not found_in(shown)
    assert "KeyError" in shown
    assert "it failed\n" in shown


def test_handlers_still_see_the_arguments_themselves(log):
    logger, lines = log
    named = Named("a name")
    logger.warning("%s: %d, %.1f", named, 3, 0.5)
    assert lines.records[0].args == (named, 3, 0.5)
    assert lines.shown == ["a name: 3, 0.5"]


def test_an_argument_without_a_text_harms_nothing(log):
    class Mute:
        def __str__(self):
            raise ArithmeticError("no text")

    logger, lines = log
    logger.warning("%s", Mute())
    assert lines.shown == ["<Mute>"]


@pytest.mark.parametrize(
    ("text", "is_so"), [("", True), ("abc", True), ("zürich \U0001f600", True), ("a\ud800", False)]
)
def test_a_text_is_whole_if_utf_8_can_write_it(text, is_so):
    assert is_whole(text) is is_so
