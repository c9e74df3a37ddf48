"""What a process listens at, as the system sees it (Linux)."""

from __future__ import annotations

from pathlib import Path

LISTENING = "0A"
"""The state of a TCP socket in /proc/net/tcp."""

ACCEPTING = "00010000"
"""The flags of a Unix socket that accepts connections, in /proc/net/unix."""


def listening(pid: int) -> list[str]:
    """Name the sockets of a process at which others can connect."""
    rows = [
        line.split()
        for name in ("tcp", "tcp6", "unix")
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
    ]
    tcp = {row[9] for row in rows if row[3] == LISTENING}
    unix = {row[6] for row in rows if row[3] == ACCEPTING}
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:  # It was that of a file that is closed by now.
            continue
        if target.removeprefix("socket:[").removesuffix("]") in tcp | unix:
            found.append(target)
    return found
