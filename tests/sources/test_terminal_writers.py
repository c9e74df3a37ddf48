"""Nothing writes to a terminal past ``peermesh.cli.output.say``, but for what escapes by itself."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_all_text_of_commands_goes_one_way() -> None:
    writers = {}
    for folder in ("wire", "handshake", "net", "channels", "stores", "endpoint", "peermesh"):
        for path in (ROOT / folder).rglob("*.py"):
            found = re.findall(
                r"(?:sys\.std(?:out|err)(?:\.buffer)?|STDERR)\.write\((.*)|console\.print\((\w*)",
                path.read_text("utf-8"),
            )
            if found:
                writers[str(path.relative_to(ROOT))] = ["".join(each)[:12] for each in found]
    assert writers == {
        "peermesh/cli/__init__.py": ["_EXTRA_MISSI"],
        "peermesh/cli/demo.py": ['"\\x1b[?25h")'],
        "peermesh/cli/output.py": ['f"{escape(li'],
        "peermesh/cli/stderr.py": ["text)"],
        "peermesh/cli/tracebacks.py": ["escape(text,"],
        "peermesh/demo/display.py": ["escape", 'f"{escape(te'],
        "peermesh/testing/real/worker.py": ["json.dumps(w"],
        "peermesh/testing/swarm/sweep.py": ["escape(text,"],
        "peermesh/testing/swarm/__main__.py": ['"\\n")', 'f"\\r\\x1b[2K{', 'escape(f"{li'],
    }
