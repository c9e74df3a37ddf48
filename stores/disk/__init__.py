"""Where masters keep their stores, and keepers their logs: in memory only, or in an SQLite file."""
