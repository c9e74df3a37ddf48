"""The safeguards of roles that change while endpoints run."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_RELOAD = ("tests/endpoint/test_role_reload.py", "tests/endpoint/mesh/test_rights.py")

_GATEWAY = ("tests/peermesh/gateways/webhdfs/test_rights.py",)

RELOAD = [
    Safeguard(
        "a copy ends with the right to read",
        "the master counts on a clone that may not read any more, and waits for it",
        "endpoint/mesh/rights.py",
        "    return (before.vote and not now.vote) or (before.read and not now.read)\n",
        "    return before.vote and not now.vote\n",
        ("tests/endpoint/mesh/test_rights.py",),
    ),
    Safeguard(
        "a clone in touch ends when its master says so",
        "what may not be read any more is read on from the copy",
        "stores/replica/core.py",
        "        elif not self.is_served or sender == self.leader:\n",
        "        elif not self.is_served:\n",
        _RELOAD,
    ),
    Safeguard(
        "a follower in touch ends when its keeper says so",
        "what may not be read any more is read on from the copy",
        "stores/replica/core.py",
        "        elif not self.is_served or sender == self.leader:\n",
        "        elif not self.is_served:\n",
        _RELOAD,
    ),
    Safeguard(
        "a member that may not vote any more is out of touch",
        "reads at once go on as if the master were one",
        "endpoint/mesh/rights.py",
        "    return (before.vote and not now.vote) or (before.read and not now.read)\n",
        "    return before.read and not now.read\n",
        ("tests/endpoint/mesh/test_rights.py",),
    ),
    Safeguard(
        "a peering ends with the role",
        "who has no role any more stays, until it connects anew",
        "endpoint/mesh/core.py",
        "        return [*effects, *self._drop_unfit(self.topology.direct)]\n",
        "        return effects\n",
        _RELOAD,
    ),
    Safeguard(
        "a peering does not begin by roles that changed meanwhile",
        "a name whose role is taken away within its handshake is in",
        "endpoint/mesh/core.py",
        "        return [*effects, EmitStatus(event), *self._drop_unfit((peer,))]\n",
        "        return [*effects, EmitStatus(event)]\n",
        _RELOAD,
    ),
    Safeguard(
        "routes of a new leaf are its own at once",
        "a peer that is a leaf now goes on speaking for others",
        "endpoint/mesh/core.py",
        "        self.routing.set_leaves(leaves)\n",
        "",
        _RELOAD,
    ),
    Safeguard(
        "a new relay is asked what it knows",
        "endpoints behind it are found a minute later",
        "endpoint/mesh/core.py",
        "        return [SendControl(peer, Knowledge(self.knowledge())) for peer in relays]\n",
        "        return [] if relays else []\n",
        _RELOAD,
    ),
    Safeguard(
        "an endpoint is what its role says now",
        "a relay that may not be one any more goes on as one",
        "endpoint/mesh/core.py",
        "        self.routing.forwards = self._is_relay_by_choice and self.authorisation.own_role.relay\n",
        "",
        _RELOAD,
    ),
    Safeguard(
        "roles are looked at from time to time",
        "a right that is withdrawn holds until the next connection",
        "endpoint/endpoint.py",
        "        if self._rules.is_refreshable:\n",
        "        if False:\n",
        _RELOAD,
    ),
    Safeguard(
        "roles are looked at for each connection",
        "a name that has just got its role is refused for ten seconds",
        "endpoint/endpoint.py",
        "        self._refresh_rules()\n        if not self.loop.is_open:\n",
        "        if not self.loop.is_open:\n",
        _RELOAD,
    ),
    Safeguard(
        "a transfer at a gateway ends with its right",
        "an upload of a day is completed a day after its right was withdrawn",
        "peermesh/gateways/webhdfs/serving.py",
        "                self._check(principal, request)\n                yield piece\n"
        "        self._check(principal, request)  # An upload is not completed without the right.\n",
        "                yield piece\n",
        _GATEWAY,
    ),
    Safeguard(
        "ports that inherit the roles of the mesh have it look at its file",
        "a guest whose right is withdrawn is served at the gateway for ten seconds more",
        "endpoint/endpoint.py",
        "        self.loop.refresh_rules = self._refresh_rules\n",
        "",
        _GATEWAY,
    ),
    Safeguard(
        "a watch says that its right ended",
        "a program that watches ends its loop as if the store were closed",
        "endpoint/replicas/stores/watching.py",
        "        if isinstance(runner.error, NotAllowed) and not self._is_closed:\n",
        "        if False:\n",
        _RELOAD,
    ),
]
