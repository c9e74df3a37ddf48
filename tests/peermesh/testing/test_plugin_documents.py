"""The tests that the documents show pass, in a project of a user."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["tutorial.md", "clusters.md"])
def test_the_tests_of_the_documents_pass(user_pytest, name):
    text = (ROOT / "docs" / "testing" / name).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    count = sum(block.count("def test_") for block in blocks)
    # A test may be for two worlds.
    found = user_pytest("\n".join(blocks), ini="trio_mode = true")
    passed = re.search(r"(\d+) passed in", found)
    assert passed is not None, found
    assert int(passed[1]) >= count > 2
