"""The readers at an endpoint: mailboxes with their readers, and which of them have to be told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from endpoint.pubsub.mailbox import Mailbox
from endpoint.pubsub.messages import Reader
from endpoint.pubsub.reader_monitor import Trouble

FULL_READS_MAX: Final = 8
"""Full reads in a row, of 128 KiB each, after which every reader hears that he need not wait for
more: what one reads may be rare, while a link is busy with what others do."""


class Readers:
    """All readers. They are told once for all that came with one read from the network."""

    def __init__(self) -> None:
        """Have no readers yet."""
        self._readers: dict[Mailbox, Reader] = {}
        self._untold: dict[Mailbox, None] = {}
        self._full_reads = 0

    def __iter__(self) -> Iterator[Mailbox]:
        """Go through the mailboxes."""
        return iter(self._readers)

    def add(self, mailbox: Mailbox, reader: Reader) -> None:
        """Have a reader read a mailbox from now on."""
        self._readers[mailbox] = reader

    def remove(self, mailbox: Mailbox) -> None:
        """Forget a mailbox that is not read any more."""
        self._readers.pop(mailbox, None)

    def note(self, mailbox: Mailbox) -> None:
        """Have the reader of a mailbox told: something was put into it."""
        self._untold[mailbox] = None

    def tell(self, more_follows: bool) -> None:  # noqa: FBT001 - called for each read: an argument by name costs more
        """Wake the readers of what was put in; some wait for more, if ``more_follows`` at once."""
        untold = self._untold
        if untold:
            self._full_reads = self._full_reads + 1 if more_follows else 0
            if self._full_reads >= FULL_READS_MAX:
                self._full_reads, more_follows = 0, False
            if not more_follows:
                self._untold = {}
            for mailbox in untold:
                reader = self._readers.get(mailbox)
                if reader is not None:
                    reader.wake(more_follows)

    def check(self, now: float, *, may_hold: bool) -> Iterator[tuple[Mailbox, Trouble | None]]:
        """Give each mailbox, and what has become of its reader in the last second.

        Publishers wait for one of them only if the endpoint's role says now that it ``may_hold``.
        """
        for mailbox, reader in list(self._readers.items()):
            mailbox.permit_holding(may_hold=may_hold)
            yield mailbox, mailbox.check(now, reader.ready_count())

    def end(self) -> None:
        """The endpoint ends."""
        for reader in list(self._readers.values()):
            reader.end()
