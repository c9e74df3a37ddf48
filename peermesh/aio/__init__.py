"""The same API for asyncio: ``async with aio.Endpoint() as endpoint`` in a task of its loop.

What may wait is ``async`` here where it is in ``peermesh``, and nowhere else. The mesh is a guest
of the loop, in its thread: while the loop stands still, so do its endpoints.
"""

from typing import TYPE_CHECKING

from peermesh.names import AIO, importer

if TYPE_CHECKING:
    from peermesh.aio.typed import *  # noqa: F403 - it has the imports that are made when used

__all__ = sorted(AIO)
__getattr__ = importer(__name__, AIO)


def __dir__() -> list[str]:
    """List what there is, for completion."""
    return __all__
