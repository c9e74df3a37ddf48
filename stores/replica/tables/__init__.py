"""What a replica of a store has that one of a log has not: a table as its machine."""
