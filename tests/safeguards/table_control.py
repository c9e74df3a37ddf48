"""The safeguards of who is believed for how long, and of what endpoints ask of each other."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_NAMES = ("tests/endpoint/mesh/test_names_and_leaders.py",)
_SEALS = ("tests/handshake/test_signing.py",)
_KINDS = ("tests/endpoint/mesh/test_unknown_kinds.py",)
_ADMIN = ("tests/endpoint/admin/test_asking.py",)
_DESK = ("tests/endpoint/admin/test_desk.py",)
_QUESTIONS = ("tests/endpoint/admin/test_questions.py",)

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
        "endpoint/mesh/memory.py",
        "        for origin in ended:\n",
        "        for origin in ():\n",
        _NAMES,
    ),
    Safeguard(
        "an id belongs to one name",
        "a relay gives a limited endpoint the rights of another",
        "endpoint/mesh/memory.py",
        "        if self._authorisation.is_renamed(announcement, known):\n",
        "        if False:\n",
        _NAMES,
    ),
    Safeguard(
        "a store is found where it may be led",
        "an endpoint without the right to lead keeps the leader from leading",
        "endpoint/mesh/reach.py",
        "                if rights.vote if topic.endswith(GROUP_SUFFIXES) else rights.lead:\n",
        "                if rights.vote or not topic.endswith(GROUP_SUFFIXES):\n",
        _NAMES,
    ),
    Safeguard(
        "each absence has a grace time of its own",
        "an endpoint that came back is forgotten at once when it is gone again",
        "endpoint/mesh/memory.py",
        "            self._unreachable_since.pop(endpoint, None)\n",
        "            pass\n",
        _NAMES,
    ),
    Safeguard(
        "commands of unknown kinds break nothing",
        "one newer tool cuts the links of older members",
        "wire/topics.py",
        "    is_kind = len(kind) <= KIND_SIZE_MAX and _KIND.fullmatch(kind) is not None\n",
        "    is_kind = topic.endswith(_SUFFIXES)\n",
        _KINDS,
    ),
    Safeguard(
        "commands of unknown kinds take some right",
        "a member without a role has others pass on what it likes",
        "handshake/roles.py",
        "            return self != NOTHING\n",
        "            return True\n",
        _KINDS,
    ),
    Safeguard(
        "a service is heard by its receiver alone",
        "one request without a receiver has all endpoints answer",
        "endpoint/mesh/wishes.py",
        " and not is_own and header.receiver is not None:\n",
        " and not is_own:\n",
        _ADMIN,
    ),
    Safeguard(
        "what is asked of an endpoint takes a right",
        "a certificate that may only publish deposes any master",
        "endpoint/admin/desk.py",
        "        if lacking:\n",
        "        if False:\n",
        _ADMIN,
    ),
    Safeguard(
        "an endpoint leads for others only what it may lead itself",
        "a copy without the right leads because a leader asks for it",
        "endpoint/replicas/part.py",
        '        runner.guarding.check("lead")\n',
        "        pass\n",
        _ADMIN,
    ),
    Safeguard(
        "answers count from the endpoint that was asked",
        "any member answers questions to others",
        "endpoint/admin/questions.py",
        "        return self._asked.get(answer.number) == sender\n",
        "        return answer.number in self._asked\n",
        _QUESTIONS,
    ),
    Safeguard(
        "numbers of questions begin at random",
        "an answer is guessed before the true one comes",
        "endpoint/admin/questions.py",
        "        self._next = int.from_bytes(seed[:NUMBER_SIZE])\n",
        "        self._next = 1\n",
        _QUESTIONS,
    ),
    Safeguard(
        "one asker has so many requests a second",
        "one member keeps all others from an answer",
        "endpoint/admin/desk.py",
        "        if asker.late_seconds(now) > -half / REQUESTS_PER_ASKER:\n",
        "        if False:\n",
        _DESK,
    ),
    Safeguard(
        "an endpoint answers so many requests a second",
        "many askers take all of an endpoint's time",
        "endpoint/admin/desk.py",
        "        if self._all.late_seconds(now) > -half / REQUESTS_PER_SECOND:\n",
        "        if False:\n",
        _DESK,
    ),
    Safeguard(
        "requests that take time are bounded",
        "promotions without end wait in an endpoint",
        "endpoint/admin/desk.py",
        "            if self._under_way >= UNDER_WAY_MAX:\n",
        "            if False:\n",
        _DESK,
    ),
    Safeguard(
        "an answer has a limit",
        "a snapshot of thousands of stores fills the outboxes on its way",
        "endpoint/admin/protocol.py",
        "    while len(payload) > ANSWER_SIZE_MAX:\n",
        "    while False:\n",
        ("tests/endpoint/admin/test_protocol.py",),
    ),
    Safeguard(
        "an error in a request is its answer",
        "an endpoint that asks waits in vain, and does not learn what is wrong",
        "endpoint/admin/service.py",
        "            found = Failed.of(error)\n",
        "            raise\n",
        _ADMIN,
    ),
]
