"""A replica group in processes of its own, under writers and readers, and under every failure."""
