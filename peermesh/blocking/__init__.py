"""The same API for threads and the REPL: one trio loop in a background thread serves them all.

``from peermesh import blocking`` gives ``blocking.Endpoint`` and ``blocking.Backend``, spelled as
in the seed's recipes.
"""

from typing import TYPE_CHECKING

from peermesh.names import BLOCKING, importer

if TYPE_CHECKING:
    from peermesh.blocking.typed import *  # noqa: F403 - it has the imports that are made when used

__all__ = sorted(BLOCKING)
__getattr__ = importer(__name__, BLOCKING)


def __dir__() -> list[str]:
    """List what there is, for completion."""
    return __all__
