"""The query of a request, and what is in its parameters."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl

from peermesh.gateways.refusals import InvalidRequest
from peermesh.gateways.webhdfs.limits import REPLICATION_MAX, TIME_MS_MAX, USER_SIZE_MAX
from wire.scalars import INTEGER_MAX

_ACTION: Final = re.compile(r"\A[r-][w-][x-]\Z")


class Parameters:
    """The query of a request; names are known in any case."""

    def __init__(self, query: str) -> None:
        """Take it apart; raises ``InvalidRequest``."""
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=64, errors="strict")
        except ValueError as error:
            raise InvalidRequest(f"a query that cannot be read: {error}") from None
        self._values = {name.lower(): value for name, value in pairs}

    def text(self, name: str, default: str) -> str:
        """Give a parameter; one that is empty counts as missing."""
        return self._values.get(name) or default

    def flag(self, name: str, *, default: bool) -> bool:
        """Give a parameter that is true or false."""
        word = self.text(name, str(default)).lower()
        if word not in ("true", "false"):
            raise InvalidRequest(f"{name}={word!r:.40}: it is true or false")
        return word == "true"

    def number(self, name: str, default: int) -> int:
        """Give a parameter that is a number from zero on, of 63 bits, as Java's are."""
        word = self.text(name, str(default))
        is_number = word.isascii() and word.isdigit() and len(word) <= len(str(INTEGER_MAX))
        if not is_number or int(word) > INTEGER_MAX:
            raise InvalidRequest(f"{name}={word!r:.40}: it is a number from 0 to {INTEGER_MAX}")
        return int(word)

    def instant(self, name: str) -> int | None:
        """Give a parameter that is milliseconds since 1970; ``None`` for -1, as in HDFS."""
        if self.text(name, "-1") == "-1":
            return None
        number = self.number(name, 0)
        if number > TIME_MS_MAX:
            raise InvalidRequest(
                f"{name}={number}: it is in milliseconds since 1970, up to {TIME_MS_MAX}, which is"
                " the end of the year 9999"
            )
        return number

    def replication(self) -> int:
        """Give the number of copies that is wished for."""
        number = self.number("replication", 1)
        if not 1 <= number <= REPLICATION_MAX:
            raise InvalidRequest(f"replication={number}: it is from 1 to {REPLICATION_MAX}")
        return number

    def action(self) -> None:
        """Check an action, as in ``r-x``; raises ``InvalidRequest``."""
        word = self.text("fsaction", "---")
        if not _ACTION.match(word):
            raise InvalidRequest(f"fsaction={word!r:.40}: it is as in r-x")

    def user(self) -> str:
        """Say who asks, as far as it says so itself."""
        return self._short(self.text("doas", self.text("user.name", "nobody")))

    def person(self, name: str) -> str | None:
        """Give the name of a user or group; ``None`` if there is none."""
        return self._short(self.text(name, "")) or None

    @staticmethod
    def _short(name: str) -> str:
        if len(name) > USER_SIZE_MAX:
            raise InvalidRequest(f"user names have at most {USER_SIZE_MAX} characters")
        return name

    def permission(self, default: str) -> str:
        """Give the permission that a new file or directory is to have."""
        word = self.text("permission", default)
        if not (word.isascii() and word.isdigit() and len(word) <= 4 and max(word) <= "7"):
            raise InvalidRequest(f"permission={word!r:.40}: it is octal, as in 644")
        return word
