"""Front ends that speak other people's protocols, over HTTP (extra ``http``)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peermesh.gateways.webhdfs.serving import GatewayStatistics, WebHDFSGateway, serve_webhdfs

__all__ = ["GatewayStatistics", "WebHDFSGateway", "serve_webhdfs"]


def __getattr__(name: str) -> object:
    """Import a name when it is first used: most of what is here needs nothing but itself."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module("peermesh.gateways.webhdfs.serving"), name)
    globals()[name] = value
    return value
