"""The test of the wheel refuses a wheel of more than one name, or one that hides whose it is."""

from __future__ import annotations

import io
import zipfile

import pytest

from tools.wheel_test import OF_THE_CHECKOUT, ROOT, check_wheel

INFO = "peermesh-1.0.dist-info"
METADATA = """\
Name: peermesh
Author: A
Keywords: mesh
License-Expression: Apache-2.0
Project-URL: Homepage, https://example.org/peermesh
Requires-Python: >=3.11
"""
GOOD = {
    "peermesh/__init__.py": "",
    "peermesh/_mesh/wire/__init__.py": "",
    f"{INFO}/METADATA": METADATA,
    f"{INFO}/entry_points.txt": "[console_scripts]\npeermesh = peermesh.cli:main\n",
}


def wheel(files):
    archive = zipfile.ZipFile(io.BytesIO(), "w")
    for name, text in files.items():
        archive.writestr(name, text)
    return archive


def test_a_wheel_of_one_name_is_fine():
    check_wheel(wheel(GOOD))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"wire/__init__.py": ""}, "occupies .*wire"),
        ({"stray.txt": ""}, "occupies .*stray"),
        ({f"{INFO}/entry_points.txt": "[pytest11]\na = endpoint.plugin\n"}, "endpoint.plugin"),
        ({f"{INFO}/METADATA": METADATA.replace("Author: A\n", "")}, "lack Author"),
        ({f"{INFO}/METADATA": METADATA.replace("Project-URL", "X")}, "lack Project-URL"),
    ],
)
def test_any_other_wheel_is_refused(change, told):
    with pytest.raises(SystemExit, match=told):
        check_wheel(wheel(GOOD | change))


@pytest.mark.parametrize("path", OF_THE_CHECKOUT)
def test_what_stays_with_the_checkout_is_there(path):
    assert (ROOT / path).exists()
