"""Logs: append-only topics with offsets, cursors and retention, replicated like stores."""
