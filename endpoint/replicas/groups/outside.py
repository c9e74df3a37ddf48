"""Proxies of a group at one endpoint: the questions of proxies, on the topics of groups."""

from __future__ import annotations

from endpoint.replicas.parts import Topics
from endpoint.replicas.stores.proxy_part import FindReplicas, ProxyPart
from stores.replica.outside import GroupProxy
from wire.topics import group_topic, proxy_topic


class GroupProxyPart(ProxyPart):
    """The questions of a proxy of a group."""

    def __init__(self, core: GroupProxy, find_replicas: FindReplicas) -> None:
        """Tell ``core`` which replicas there are, from time to time."""
        super().__init__(core, find_replicas)
        self._proxy = core

    @property
    def core(self) -> GroupProxy:
        """What decides."""
        return self._proxy

    def topics(self, name: str) -> Topics:
        """Hear on the proxies' topic, and speak to replicas on that of their group."""
        group = group_topic(name)
        return Topics(proxy_topic(name), group, group)
