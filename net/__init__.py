"""Connections: opening, accepting and securing them, and what a process does with its sockets.

Above ``wire`` and ``handshake``, whose credentials it uses. It knows no endpoint, store or channel.
"""
