"""The run of Broker's tests says what does not pass, and what is new; its list is not forgotten."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.broker_tests import LIST

TOPIC = """
import os
import stat
import unittest
from pathlib import Path

import broker
import broker.zeek

KEY = Path(__file__).parent / "certs" / "key.1.pem"


class TestTopic(unittest.TestCase):
    def test_string(self):
        self.assertEqual(broker.Topic("/a") / broker.Topic("b"), broker.Topic("/a/b"))
        self.assertTrue(broker.zeek.Event("a").valid())
        self.assertEqual(stat.S_IMODE(os.stat(KEY).st_mode), 0o600)

    def test_append(self):
        self.fail("as ever")

    def test_fresh(self):
        pass
"""


def run(checkout: Path, *names: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tools.broker_tests", checkout, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_all_that_is_wrong_is_said(tmp_path):
    folder = tmp_path / "tests" / "python"
    (folder / "certs").mkdir(parents=True)
    (folder / "topic.py").write_text(TOPIC)
    (folder / "certs" / "key.1.pem").write_text("")
    code, told = run(tmp_path, "topic.")
    assert code == 1
    assert "AssertionError: as ever" in told
    *_, failed, fresh, count = told.splitlines()
    assert failed == "not passed: topic.TestTopic.test_append"
    assert fresh == "not on the list: topic.TestTopic.test_fresh"
    assert count == "1 of 2 passed"
    assert run(tmp_path, "topic.TestTopic.test_string") == (0, "\n1 of 1 passed\n".lstrip())
    assert (folder / "certs" / "key.1.pem").stat().st_mode & 0o077


def test_what_is_no_checkout_of_broker_is_named(tmp_path):
    code, told = run(tmp_path)
    assert code == 2
    assert "topic.py" in told
    assert "name a checkout of Broker" in told


def test_the_list_has_each_of_the_44_once():
    names = LIST.read_text("utf-8").split()
    assert len(names) == len(set(names)) == 44
