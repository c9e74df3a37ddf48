"""A node of a cluster in a process of its own: asked over a socket pair, and gone with its parent."""
