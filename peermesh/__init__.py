"""A brokerless peer-to-peer mesh: publish/subscribe, replicated stores, barriers that explain.

This is the trio API: what may wait is ``async``. ``peermesh.aio`` has the same names for asyncio,
and ``peermesh.blocking`` for threads and the REPL. Errors are in ``peermesh.errors``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from peermesh.names import MODULES, TRIO, importer

if TYPE_CHECKING:
    from peermesh.typed import *  # noqa: F403 - it has the imports that are made when used

__all__ = sorted(TRIO)
_import = importer(__name__, TRIO)


def __getattr__(name: str) -> object:
    """Import a name when it is first used, and look up the version."""
    if name == "__version__":
        return _version()
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    return _import(name)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # as slow as all the rest here

    try:
        return version("peermesh")
    except PackageNotFoundError:
        raise AttributeError("peermesh was not installed, so that its version is unknown") from None


def __dir__() -> list[str]:
    """List what there is, for completion."""
    return [*__all__, *MODULES, "__version__"]
