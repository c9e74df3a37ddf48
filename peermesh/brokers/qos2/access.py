"""What each verb of a QoS-2 broker asks a role for, and how a client is refused."""

from __future__ import annotations

from typing import Final

from handshake.access import Access, Port, Right
from handshake.principals import Principal, Proof
from peermesh.brokers.qos2.errors import Refused
from wire.errors import NotAllowed

LOGIN: Final = "LOGIN"
BEGIN: Final = "BEGIN"
SUBSCRIBE: Final = "SUBSCRIBE"

PORT: Final = Port(
    "the QoS-2 broker",
    "peermesh/brokers/qos2/broker.py",
    (Proof.CERTIFICATE,),
    "plain on loopback; elsewhere refused, or `allow_plain`",
    {LOGIN: Right.ENTER, BEGIN: Right.PUBLISH, SUBSCRIBE: Right.SUBSCRIBE},
    "A consumer's name, and the ids of a publisher's, belong to the principal that made them.",
)

DENIED: Final = "NOT ALLOWED"
"""How the line begins that tells a client of a right that it lacks, behind ``ERROR``."""


class Rights:
    """What one connection may do. The line dialogue has no passwords: a certificate, or nothing."""

    def __init__(self, access: Access, principal: Principal) -> None:
        self.principal: Final = principal
        self._access = access

    def check(self, verb: str, *names: str) -> None:
        """Raise ``Refused`` unless the role permits the verb for each of these names."""
        for name in names:
            try:
                self._access.check(self.principal, verb, name)
            except NotAllowed as error:
                raise Refused(_line(verb, name)) from error

    def refusal(self, verb: str, name: str) -> Refused:
        """Note a refusal that does not come of the role, and give the error to raise."""
        self._access.refuse(self.principal, verb, name)
        return Refused(_line(verb, name))


def _line(verb: str, name: str) -> str:
    return f"{DENIED} TO {verb} {name}"
