"""The audit: lowest versions are those of pyproject.toml, and silence is never taken for health."""

from __future__ import annotations

import json

import pytest

from tests.audit import requirements
from tests.audit.__main__ import ask, tell
from tests.audit.verdict import Verdict, is_good, verdict


def report(*rows) -> str:
    return json.dumps({"dependencies": rows, "fixes": []})


SOUND = {"name": "sound", "version": "1.0", "vulns": []}
SKIPPED = {"name": "unknown", "skip_reason": "Dependency not found"}
FAULTY = {
    "name": "faulty",
    "version": "1.0",
    "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["1.1"]}],
}


def test_every_dependency_has_a_lowest_version():
    found = requirements.lowest_here()
    assert {"trio", "cbor2", "cryptography", "click", "pyspark", "pytest"} <= set(found)
    assert f"cryptography=={found['cryptography']}\n" in requirements.text(found)


def test_extras_and_markers_are_read():
    project = {"dependencies": ["a>=1"], "optional-dependencies": {"x": ["b>=2.0; os == 'x'"]}}
    assert requirements.lowest({"project": project}) == {"a": "1", "b": "2.0"}
    assert requirements.lowest({"project": project}, []) == {"a": "1"}


@pytest.mark.parametrize("requirement", ["a", "a==1", "a>1", "a<2"])
def test_a_dependency_without_a_lowest_version_is_refused(requirement):
    project = {"dependencies": [requirement], "optional-dependencies": {}}
    with pytest.raises(requirements.Unbounded, match="name>=version"):
        requirements.lowest({"project": project})


def test_what_is_installed_is_the_rest_of_the_audit():
    found = requirements.installed()
    assert found["pytest"] == pytest.__version__
    assert "peermesh" not in found


@pytest.mark.parametrize(
    ("text", "passes", "passes_required"),
    [
        (report(SOUND), True, True),
        (report(SOUND, SKIPPED), True, False),
        (report(SKIPPED), True, False),
        (report(), True, False),
        (report(SOUND, FAULTY), False, False),
        ("", True, False),
        ("requests.exceptions.ConnectionError", True, False),
    ],
)
def test_only_an_answer_without_faults_is_good_where_it_is_required(text, passes, passes_required):
    found = verdict(text)
    assert is_good(found, is_required=False) is passes
    assert is_good(found, is_required=True) is passes_required


@pytest.mark.parametrize("service", ["pypi", "osv"])
def test_pip_audit_takes_what_it_is_told(service):
    """An option that it does not know would look like a service that does not answer."""
    pytest.importorskip("pip_audit")
    assert ask({}, service) == Verdict((), (), ())  # nobody has to be asked for that


@pytest.mark.parametrize("found", [None, verdict(report()), verdict(report(SKIPPED))])
def test_what_nobody_has_looked_at_is_told_loudly(capsys, found):
    tell("lowest", found)
    assert capsys.readouterr().out.startswith("NOT AUDITED: the lowest versions.")


def test_packages_that_were_left_out_are_told_loudly(capsys):
    tell("lowest", verdict(report(SOUND, SKIPPED)))
    assert "NOT AUDITED: unknown\n" in capsys.readouterr().out


def test_a_fault_is_told_with_its_remedy():
    (line,) = verdict(report(FAULTY)).faults
    assert line == "faulty 1.0: PYSEC-1 (CVE-1); fixed in 1.1"
