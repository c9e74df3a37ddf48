"""Stores and logs of one endpoint: what both kinds of replicas share, and a room for each."""
