"""WebHDFS in front of a store: what Spark needs for its checkpoints (extra ``http``)."""

from peermesh.gateways.webhdfs.serving import GatewayStatistics, WebHDFSGateway, serve_webhdfs

__all__ = ["GatewayStatistics", "WebHDFSGateway", "serve_webhdfs"]
