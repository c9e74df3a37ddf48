"""What a failure shows is told whatever it holds; a run with workers once ended by it."""

from __future__ import annotations

import logging

import pytest

FAILING = r"""
import logging

def test_that_fails():
    logging.getLogger("peermesh").warning("logged \ud800")
    assert "seen \udc80" == ""

def test_behind_it():
    assert True
"""


def test_lone_surrogates_in_a_failure_leave_the_run_as_it_is(pytester):
    pytester.makeconftest("from tests.conftest import pytest_report_to_serializable")
    pytester.makepyfile(FAILING)
    result = pytester.runpytest_subprocess("-n", "1", "-p", "no:peermesh")
    result.assert_outcomes(passed=1, failed=1)
    assert r"seen \udc80" in result.stdout.str()
    assert r"logged \ud800" in result.stdout.str()


def test_a_logger_with_a_format_of_its_own_leaves_that_of_what_is_captured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.handler.setFormatter(logging.Formatter("left out", validate=False))
    logging.getLogger("peermesh").warning("told")
    assert "told" in caplog.text
