"""What each verb of the mesh's own port asks a role for: its line in the table of ports."""

from __future__ import annotations

from typing import Final

from handshake.access import Port, Right
from handshake.principals import Proof

PORT: Final = Port(
    "the mesh",
    "endpoint/endpoint.py",
    (Proof.CERTIFICATE,),
    "plain on loopback; elsewhere refused, or `allow_plain`; roles are refused",
    {
        "peer": Right.ENTER,
        "publish": Right.PUBLISH,
        "subscribe": Right.SUBSCRIBE,
        "read a store or log": Right.READ,
        "write a store or log": Right.WRITE,
        "lead a store or log": Right.LEAD,
        "have a replica of a group": Right.VOTE,
        "pass on": Right.RELAY,
        "have publishers wait": Right.HOLD,
    },
    "Asked of frames by `endpoint.mesh.authorisation`, of commands by `stores.group.rights`.",
)
