"""The history of a cluster as one HTML page: lanes of nodes, arrows of causality, and a filter.

The page needs nothing else: it can be attached to a report, and opened years later.
"""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from typing import Any, Final

from peermesh.testing.report import Snapshot, report, with_names
from wire.escaping import escape

TEMPLATE: Final = "timeline.html"

MARK: Final = re.compile(r"\{\{(\w+)\}\}")
"""Where the template has a part."""


def page(snapshot: Snapshot, title: str) -> str:
    """Write the page; the title is the test's name, as a rule."""
    template = files("peermesh.testing").joinpath(TEMPLATE).read_text("utf-8")
    # "<" nowhere in the data: so that no text of an event can end the script that holds it.
    data = json.dumps(data_of(snapshot)).replace("<", "\\u003c")
    parts = {
        "title": html.escape(escape(title)),
        "world": html.escape(escape(snapshot.world)),
        "report": html.escape(report(snapshot)),
        "data": data,
    }
    # In one pass, so that a mark in a title or in an event is text like any other.
    return MARK.sub(lambda found: parts[found[1]], template)


def data_of(snapshot: Snapshot) -> dict[str, Any]:
    """Give what the page draws: lanes, and events with their causes by index."""
    names = {node: escape(name) for node, name in snapshot.names().items()}
    events = snapshot.events()
    named = [names.get(event.record.node, str(event.record.node)) for event in events]
    lanes = list(dict.fromkeys([*names.values(), *named]))
    places = {name: place for place, name in enumerate(lanes)}
    index = {event.key: number for number, event in enumerate(events)}
    start = min((event.record.at for event in events), default=0.0)
    return {
        "lanes": lanes,
        "events": [
            {
                "lane": places[name],
                "at": round(event.record.at - start, 6),
                "kind": event.record.kind,
                "text": escape(with_names(event.record.text, names), kept="\n"),
                "about": names.get(event.record.about) if event.record.about else None,
                "causes": [index[cause] for cause in event.causes if cause in index],
                "lamport": int(event.lamport),
                "number": event.record.number,
            }
            for event, name in zip(events, named, strict=True)
        ],
    }
