"""The link to one peer: what waits for it, the credit in both directions, and whether it lives."""
