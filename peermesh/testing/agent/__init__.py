"""A node of a cluster in its own process: asked over a socket pair, and gone with its parent."""
