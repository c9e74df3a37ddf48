"""Replicated stores: masters, clones, and the backends that keep them."""
