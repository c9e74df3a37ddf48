"""What is written keeps three rules of plain English; lines from before are on a list that shrinks.

``python -m tests.style`` shows what breaks a rule, and with ``--write`` takes entries from the list
that are no longer needed.
"""

from __future__ import annotations

from collections import Counter

from tests.style.english import (
    ALLOWED,
    Line,
    found,
    in_docstrings,
    in_markdown,
    read_allowed,
    write_allowed,
)

SAMPLE = '''\
"""Begin to look.

His turn, said nobody.
"""

EACH = 1
"""Whoever asks."""

class Beginner:
    """Beginners are `nobody`; ``him`` is a name."""

    def be(self):
        "Be calm."
        print("""somebody""")  # nobody
'''


def test_no_new_line_breaks_a_rule():
    new = found() - read_allowed(ALLOWED.read_text("utf-8"))
    assert not new, "write it anew: name the part that acts, and begin with what it does"


def test_the_list_holds_nothing_that_is_not_needed():
    needless = read_allowed(ALLOWED.read_text("utf-8")) - found()
    assert not needless, "python -m tests.style --write"


def test_the_rules_see_docstrings_and_nothing_else():
    assert sorted(in_docstrings(SAMPLE)) == [
        "Be calm.",
        "Begin to look.",
        "His turn, said nobody.",
        "Whoever asks.",
    ]


def test_the_rules_see_a_document_but_not_what_is_drawn_or_code():
    page = (
        "Nobody reads.\n`nobody` reads.\n"
        "<!-- generated: name -->\nsomebody\n<!-- end -->\n  It is his.\nThis, there, behind.\n"
    )
    assert list(in_markdown(page)) == ["Nobody reads.", "It is his."]


def test_a_project_is_looked_through_but_for_what_tools_make(tmp_path):
    for name in ("wire/a.py", ".venv/b.py", "build/c.py", "docs/d.md", "docs/.e/f.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('"""Nobody."""\n' * 2)
    a, d = Line("wire/a.py", "Nobody."), Line("docs/d.md", '"""Nobody."""')
    assert found(tmp_path) == {a: 2, d: 2}


def test_an_entry_allows_one_line_wherever_it_stands():
    line = Line("wire/a.py", "Nobody: here.")
    listed = read_allowed(write_allowed([line]))
    assert listed == {line: 1}
    assert Counter([line, line]) - listed == {line: 1}
