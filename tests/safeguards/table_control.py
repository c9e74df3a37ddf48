"""The safeguards of who is believed for how long, and of what endpoints ask of each other."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_NAMES = ("tests/endpoint/test_names_and_leaders.py",)
_SEALS = ("tests/handshake/test_signing.py",)

CONTROL = [
    Safeguard(
        "an endorsement ends with its certificate",
        "an endpoint goes on in a name that its authority no longer confirms",
        "handshake/signing.py",
        "        if begin <= now_ns <= end:\n",
        "        if end:\n",
        _SEALS,
    ),
    Safeguard(
        "an endpoint is forgotten when its endorsement ends",
        "an endpoint that announces nothing new keeps the rights of an old certificate",
        "endpoint/core.py",
        "        for origin in ended:\n",
        "        for origin in ():\n",
        _NAMES,
    ),
    Safeguard(
        "an id belongs to one name",
        "a relay gives a limited endpoint the rights of another",
        "endpoint/core.py",
        "        if self.authorisation.is_renamed(announcement, known):\n",
        "        if False:\n",
        _NAMES,
    ),
    Safeguard(
        "a store is found where it may be led",
        "an endpoint without the right to lead keeps the leader from leading",
        "endpoint/core.py",
        "            if announcement and topic in announcement.stores and self._leads(origin, topic):\n",
        "            if announcement and topic in announcement.stores:\n",
        _NAMES,
    ),
    Safeguard(
        "each absence has a grace time of its own",
        "an endpoint that came back is forgotten at once when it is gone again",
        "endpoint/core.py",
        "                self._unreachable_since.pop(endpoint, None)\n",
        "",
        _NAMES,
    ),
]
