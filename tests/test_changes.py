"""The fragments of the changelog: a sentence each, named so that they come out in their place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in CONFIGURATION["type"]]
NAME = re.compile(rf"\d+\.(?:{'|'.join(KINDS)})(?:\.\d+)?\.md")
SENTENCE = re.compile(r"[A-Z`][^\n]*[^.\n]\.\n")
FRAGMENTS = sorted(path for path in (ROOT / CONFIGURATION["directory"]).iterdir())


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_a_sentence_of_a_known_kind(path):
    assert NAME.fullmatch(path.name), f"call it ISSUE.KIND.md; the kinds are {', '.join(KINDS)}"
    assert SENTENCE.fullmatch(path.read_text("utf-8")), "a fragment is one sentence, in one line"


def test_the_changelog_has_the_place_for_the_next_release():
    text = (ROOT / CONFIGURATION["filename"]).read_text("utf-8")
    assert text.count(CONFIGURATION["start_string"]) == 1


def test_the_contributors_are_told_of_each_kind():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert all(f"| `{kind}` |" in text for kind in KINDS)


@pytest.mark.parametrize("name", ["feature.md", "16.news.md", "16.feature.txt", "16.feature.a.md"])
def test_a_fragment_that_would_be_passed_over_is_found(name):
    assert not NAME.fullmatch(name)


@pytest.mark.parametrize("text", ["", "no sentence\n", "One.\nTwo.\n", "Dots...\n", "No newline."])
def test_what_is_no_sentence_is_found(text):
    assert not SENTENCE.fullmatch(text)
