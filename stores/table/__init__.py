"""The table of a store, and the machine that a replica group keeps it with."""

from stores.table.table import ChangeKind, Columns, Entry, Table, Walk

__all__ = ["ChangeKind", "Columns", "Entry", "Table", "Walk"]
