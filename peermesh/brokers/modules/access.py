"""Who reaches a module, and what one that joins the mesh asks: its lines in the table of ports."""

from __future__ import annotations

from typing import Final

from handshake.access import Port, Right
from handshake.principals import Proof

PORT: Final = Port(
    "a module in a process of its own",
    "peermesh/brokers/modules/process.py",
    (),
    "a pair of sockets that its process alone inherits",
    note="The modules of one broker trust each other.",
)

TO_MESH: Final = Port(
    "the mesh, through a module",
    "peermesh/brokers/modules/mesh.py",
    (Proof.CERTIFICATE,),
    "that of its endpoint",
    {"receive": Right.PUBLISH, "attach": Right.SUBSCRIBE},
    "With the rights of its endpoint's certificate, asked there and by the endpoints on the way.",
)
