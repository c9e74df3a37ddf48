"""The cores of flow control as the explorer uses them: those of the product, or with one change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

from tests.safeguards.safeguard import ROOT, Safeguard

NAMES = (
    "endpoint.link.limits",
    "endpoint.link.data_queue",
    "endpoint.link.liveness",
    "endpoint.link.link",
    "endpoint.link.hold_words",
    "endpoint.link.holds",
    "endpoint.pubsub.queueing",
    "endpoint.pubsub.messages",
    "endpoint.pubsub.reader_monitor",
    "endpoint.pubsub.mailbox",
    "endpoint.pubsub.parking",
)
"""In the order of their imports."""

Product = SimpleNamespace


def load(change: Safeguard | None = None) -> Product:
    """Execute the source of all cores anew, with one safeguard switched off, if one is given."""
    product = SimpleNamespace()
    with _set_aside():
        for name in NAMES:
            file = f"{name.replace('.', '/')}.py"
            if change is not None and change.file == file:
                source = change.without()
            else:
                source = (ROOT / file).read_text(encoding="utf-8")
            module = ModuleType(name)
            sys.modules[name] = module
            exec(compile(source, file, "exec"), module.__dict__)
            vars(product).update(vars(module))
    return product


@contextmanager
def _set_aside() -> Iterator[None]:
    """Have imports find what is put into ``sys.modules`` meanwhile, and then what was there."""
    before = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    try:
        yield
    finally:
        for name in NAMES:
            sys.modules.pop(name, None)
        sys.modules.update(before)
