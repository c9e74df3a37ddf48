"""Brokers beside the mesh: an in-process bus of modules, topic channels, durable line topics."""
