"""What a replica of a log has that one of a store has not: runs of entries, and consumers."""
