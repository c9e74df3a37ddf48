"""What keeps the promises of a log's replica beside its machine: each line can be switched off."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

_CORE = "tests/stores/replica/test_log_core.py"
_FOLDER = "tests/endpoint/replicas/group_logs"
_RIGHTS = f"{_FOLDER}/test_replica_log_rights.py"
_LOGS = f"{_FOLDER}/test_replica_logs.py"


def _part(name: str, why: str, file: str, text: str, replacement: str, *tests: str) -> Safeguard:
    return Safeguard(f"log replica: {name}", why, file, text, replacement, tests or (_CORE,))


LOG_REPLICAS = [
    _part(
        "no endpoint asks in another's name",
        "an endpoint uses up the request numbers of another endpoint",
        "stores/log/bodies.py",
        "    if writer is not None and writer.entity.endpoint != sender:\n",
        "    if False:\n",
    ),
    _part(
        "outside of the group nothing is asked",
        "an endpoint that is no member has entries of all others let go",
        "stores/replica/outsiders.py",
        '        """Take in what a proxy asks; raises ``DecodeError``."""\n',
        "        self._carry_out(member.propose((Outside(sender), ask.ticket), ask.request))\n",
    ),
    _part(
        "a parcel that was sent stays as it is",
        "what is sent again is another request than the ledger knows",
        "stores/replica/asked/outbox.py",
        "        if latest.was_sent or is_full:\n",
        "        if is_full:\n",
    ),
    _part(
        "a closed log takes nothing on",
        "what is asked of a closed log waits for ever",
        "stores/replica/logs/outbox.py",
        "        self.requests.serve(_refuse)\n",
        "        pass\n",
    ),
    _part(
        "receipts wait until readers see what they are about",
        "who appended reads at once, and does not find it",
        "stores/replica/logs/core.py",
        "        return self.machine.has_done(self.outbox.writer, outcome.last_request)\n",
        "        return True\n",
    ),
    _part(
        "roles stand before it",
        "what may read appends, and says what all keep",
        "endpoint/replicas/group_logs/attachments.py",
        "        part.runner.guarding = GroupGuarding(self._host.core, name, part, right_of)\n",
        "",
        _RIGHTS,
    ),
    _part(
        "a log has a keeper or a group",
        "two logs of one name take appends, and each has some of them",
        "endpoint/replicas/logs/log_attachments.py",
        "        if self._host.core.reach.find_store(log_group_topic(name)) is not None:\n",
        "        if False:\n",
        _LOGS,
    ),
    _part(
        "no group beside a keeper",
        "two logs of one name take appends, and each has some of them",
        "endpoint/replicas/group_logs/attachments.py",
        "        if where is not None:\n",
        "        if False:\n",
        _LOGS,
    ),
    _part(
        "what is small follows the journal into the file",
        "a restart applies all entries since the first one, however many they are",
        "endpoint/replicas/group_logs/files.py",
        "        self._rows.checkpoint(rows.checkpoint, rows.parts)\n",
        "        pass\n",
        "tests/stores/replica/test_log_books.py",
    ),
    _part(
        "a checkpoint is of what the disk has",
        "after a crash a file has a state that its journal does not lead to, and is refused",
        "stores/replica/logs/books.py",
        "        if not is_due or self._books is not None or member.journal.durable < commit:\n",
        "        if not is_due or self._books is not None:\n",
        "tests/stores/replica/test_log_books.py",
    ),
]
