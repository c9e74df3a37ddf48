"""Nothing makes or opens a file for writing past ``handshake/private_files.py``."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

PRODUCT = ("wire", "channels", "handshake", "stores", "endpoint", "peermesh", "net")

WRITERS = frozenset({"write_text", "mkdir", "makedirs", "umask"})

ALLOWED = {
    "handshake/private_files.py": "is where it is done",
    "peermesh/cli/helping.py": "click's write_text() writes help",
    "peermesh/cli/command.py": "click's write_text() writes help",
    "peermesh/testing/swarm/page.py": "renews a page of the documents",
}


def _writes(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr="open") | ast.Name(id="open"):
            words = [each.value for each in ast.walk(call) if isinstance(each, ast.Constant)]
            return any(
                isinstance(word, str) and word[:1] in "wax" and len(word) in (1, 2)
                for word in words
            )
        case ast.Attribute(attr="touch"):
            return not call.args  # a core's ledger has a touch(), of a writer
        case ast.Attribute(attr=name):
            return name in WRITERS
    return False


def test_nothing_makes_files_past_these_functions():
    found = set()
    for package in PRODUCT:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and _writes(node):
                    found.add(str(path.relative_to(ROOT)))
    assert found == set(ALLOWED)
