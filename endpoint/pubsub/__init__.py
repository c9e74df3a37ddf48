"""The ends of a message's way: what is published here, and what is read here."""
